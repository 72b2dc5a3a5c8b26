/* The file in which a warmed process is kept: what snapshot_writer.c writes and snapshot_starter.c
 * maps. All numbers are of this machine's byte order; offsets are bytes from the file's beginning.
 *
 *   Snapshot | Mapping[] | Piece[] | Source[] | texts | (to a page) contents of all pieces
 */
#include <stdint.h>

enum { PAGE_BYTES = 4096, MAX_TABLE_BYTES = 1 << 20, MAX_SPECIAL = 8, CPU_WORDS = 10 };
enum { LARGE_PAGE_BYTES = 2 << 20, SNAPSHOT_FORMAT = 2 };

/* A file as it was: another one by now is noticed by any of these. */
struct FileState {
    uint64_t size, inode;
    int64_t seconds, nanoseconds;
};

/* One mapping of the process. `name` is where the file's name begins among the texts; anonymous
 * memory has no inode. */
struct Mapping {
    uint64_t start, end, offset;
    uint32_t protection, name;
    struct FileState file;
};

/* Pages with their place in the snapshot: what differs from what a new mapping holds, and what a
 * compilation reads of large libraries. They are mapped there, but where `is_read` is not 0: there
 * stands anonymous memory, of whole large pages, into which they are read. */
struct Piece {
    uint64_t start, size, offset;
    uint32_t protection, is_read;
};

/* A source that the process has imported. */
struct Source {
    struct FileState file;
    uint32_t name, unused;
};

/* What the kernel maps by itself: the vdso and its data. Moved to where they were. */
struct Special {
    uint64_t start, end;
};

/* What the starter tells the process that comes back. */
struct Resumed {
    int64_t argument_count;
    char **arguments, **environment;
    uint64_t held;    /* signals that the starter blocks, as a mask: the bit of signal n is n - 1 */
    uint64_t ignored; /* signals that the caller ignores */
};

struct Snapshot {
    uint64_t format, file_bytes, table_bytes;
    uint64_t mapping_count, mappings, piece_count, pieces, source_count, sources, texts;
    uint64_t special_count, vdso;
    struct Special special[MAX_SPECIAL];
    uint64_t stack_pointer, instruction, thread_pointer, thread_id;
    uint64_t robust_list, restartable, restartable_bytes;
    uint64_t signal_stack, signal_stack_bytes, has_signal_stack;
    uint64_t resumed;
    uint32_t cpu[CPU_WORDS];
    char build[40], kernel[65], kernel_version[65];
};

/* What libc and LLVM choose their code by: the processor's features, and the registers that the
 * kernel saves. */
static inline void describe_cpu(uint32_t words[CPU_WORDS]) {
    uint32_t a, b, c, d;
#define CPUID(leaf, subleaf)                                                                       \
    __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(leaf), "c"(subleaf))
    CPUID(0, 0);
    uint32_t last = a;
    words[0] = b;
    CPUID(1, 0);
    words[1] = a, words[2] = c, words[3] = d;
    int has_xgetbv = (c >> 27) & 1;
    words[4] = words[5] = words[6] = words[7] = 0;
    if (last >= 7) {
        CPUID(7, 0);
        words[4] = b, words[5] = c, words[6] = d;
        if (a >= 1) {
            CPUID(7, 1);
            words[7] = a;
        }
    }
    words[8] = words[9] = 0;
    if (has_xgetbv)
        __asm__ volatile("xgetbv" : "=a"(words[8]), "=d"(words[9]) : "c"(0));
#undef CPUID
}
