/* Writes the process that calls it to a file from which snapshot_starter.c brings it back.
 *
 * A library that Python loads (snapshot.py). The process must have one thread and no open files of
 * its own. Linux on x86-64 with glibc: elsewhere it says that it cannot.
 */
#define _GNU_SOURCE
#include "snapshot.h"
#include <asm/prctl.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { MAX_MAPPINGS = 4096, MAX_PIECES = 1 << 14, MAX_SOURCES = 4096, LINE_BYTES = 4352 };

/* Unchanged pages between two changed ones that are written with them: a mapping more costs the
 * starter, and whoever reads it first, as much as some pages. With 8, 24, 64 and 200 the command
 * takes 38.0, 36.5, 36.4 and 35.6 ms of processor time for a vector add, and 67, 77, 89 and 92 MB. */
enum { PAGES_TO_BRIDGE = 24 };

/* Where glibc keeps the thread's number, from the thread pointer; checked before it is believed. */
enum { THREAD_ID_OFFSET = 0x2d0 };
enum { RESTARTABLE_BYTES = 32 };

extern char **environ;
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));

/* None of these is allocated: the heap must stay as it is from when its pages are compared until
 * they are written. */
static struct Resumed resumed;
static struct Mapping mappings[MAX_MAPPINGS];
static struct Piece pieces[MAX_PIECES];
static struct Source sources[MAX_SOURCES];
static char texts[MAX_TABLE_BYTES];
static size_t text_bytes, source_count;
static const char *reason = "";

struct Place {
    uint64_t stack_pointer, instruction;
};

static int refuse(const char *why) {
    reason = why;
    return -1;
}

/* Where a text begins among the texts; -1: there is no room for it. */
static int keep_text(const char *text, uint32_t *place) {
    size_t size = strlen(text) + 1;
    if (sizeof texts - text_bytes < size)
        return refuse("too many files are mapped and imported");
    *place = (uint32_t)text_bytes;
    memcpy(texts + text_bytes, text, size);
    text_bytes += size;
    return 0;
}

static struct FileState state_of(const struct stat *status) {
    struct FileState state = {(uint64_t)status->st_size, status->st_ino, status->st_mtim.tv_sec,
                              status->st_mtim.tv_nsec};
    return state;
}

/* Notes a file that the process has read: the starter looks whether it has changed. */
int tileiras_snapshot_source(const char *name) {
    struct stat status;
    if (stat(name, &status) < 0)
        return refuse("a source is gone");
    if (source_count == MAX_SOURCES)
        return refuse("too many files are mapped and imported");
    struct Source *source = &sources[source_count++];
    source->file = state_of(&status);
    return keep_text(name, &source->name);
}

struct Resumed *tileiras_snapshot_resumed(void) { return &resumed; }
const char *tileiras_snapshot_reason(void) { return reason; }

/* Whether a page is other than what a new mapping holds there. */
static int is_changed(const char *page, int file, uint64_t offset) {
    static char there[PAGE_BYTES];
    ssize_t size = file < 0 ? 0 : pread(file, there, sizeof there, (off_t)offset);
    if (size < 0)
        size = 0;
    memset(there + size, 0, sizeof there - (size_t)size);
    return memcmp(page, there, sizeof there) != 0;
}

/* --- which pages of large libraries a compilation reads ---------------------------------------- */

/* Libraries of at least so many bytes are watched: LLVM's has 165 million, of which a compilation
 * reads a tenth. The C library, which does the watching, must not be. */
enum { MIN_WATCHED_BYTES = 16 << 20, MAX_WATCHED = 64, MAX_WATCHED_PAGES = 1 << 17 };

/* One of these mappings; `first` is the number of its first page among all that are watched. */
struct Watched {
    uint64_t start, end, first;
    int protection;
};

static struct Watched watched[MAX_WATCHED];
static size_t watched_count;
static unsigned char used_pages[MAX_WATCHED_PAGES];

static const struct Watched *find_watched(uint64_t address) {
    for (size_t index = 0; index < watched_count; index++)
        if (address - watched[index].start < watched[index].end - watched[index].start)
            return &watched[index];
    return NULL;
}

/* Whether a page was read while the mappings were watched. */
static int is_used(uint64_t page) {
    const struct Watched *mapping = find_watched(page);
    return mapping != NULL && used_pages[mapping->first + (page - mapping->start) / PAGE_BYTES];
}

/* SIGSEGV: notes the page, and lets the access be repeated. */
static void note_use(int number, siginfo_t *info, void *context) {
    uint64_t page = (uint64_t)info->si_addr & -(uint64_t)PAGE_BYTES;
    const struct Watched *mapping = find_watched(page);
    (void)context;
    if (mapping == NULL || mprotect((void *)page, PAGE_BYTES, mapping->protection) < 0) {
        signal(number, SIG_DFL); /* a fault of another kind, which ends the process now */
        return;
    }
    used_pages[mapping->first + (page - mapping->start) / PAGE_BYTES] = 1;
}

/* Takes the pages of large libraries away, so that each that is read is noted. Until
 * tileiras_snapshot_unwatch, system calls cannot read texts that stand in them. */
int tileiras_snapshot_watch(void) {
    struct sigaction action = {.sa_sigaction = note_use, .sa_flags = SA_SIGINFO};
    char line[LINE_BYTES], rights[5], name[LINE_BYTES];
    uint64_t start, end, pages = 0;
    struct stat status;
    FILE *maps = fopen("/proc/self/maps", "r");
    if (maps == NULL)
        return refuse("/proc/self/maps cannot be read");
    while (watched_count < MAX_WATCHED && fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%lx-%lx %4s %*x %*x:%*x %*u %4351[^\n]", &start, &end, rights, name) < 4)
            continue;
        uint64_t count = (end - start) / PAGE_BYTES;
        if (rights[0] != 'r' || rights[1] != '-' || count > MAX_WATCHED_PAGES - pages ||
            stat(name, &status) < 0 || status.st_size < MIN_WATCHED_BYTES)
            continue;
        int protection = PROT_READ | (rights[2] == 'x' ? PROT_EXEC : 0);
        watched[watched_count++] = (struct Watched){start, end, pages, protection};
        pages += count;
    }
    fclose(maps);
    sigaction(SIGSEGV, &action, NULL);
    for (size_t index = 0; index < watched_count; index++)
        if (mprotect((void *)watched[index].start, watched[index].end - watched[index].start,
                     PROT_NONE) < 0)
            return refuse("memory cannot be watched");
    return 0;
}

/* Gives all pages back. */
int tileiras_snapshot_unwatch(void) {
    for (size_t index = 0; index < watched_count; index++)
        if (mprotect((void *)watched[index].start, watched[index].end - watched[index].start,
                     watched[index].protection) < 0)
            return refuse("memory cannot be given back");
    signal(SIGSEGV, SIG_DFL);
    return 0;
}

static struct Piece *add_piece(struct Snapshot *snapshot, uint64_t start, uint64_t size,
                               uint32_t protection) {
    if (snapshot->piece_count == MAX_PIECES) {
        refuse("too many pieces of memory");
        return NULL;
    }
    struct Piece *piece = &pieces[snapshot->piece_count++];
    *piece = (struct Piece){.start = start, .size = size, .protection = protection};
    return piece;
}

/* Makes whole large pages of the piece that was added last a piece of their own, to be read. */
static int split_large(struct Snapshot *snapshot) {
    struct Piece *piece = &pieces[snapshot->piece_count - 1];
    uint64_t large = LARGE_PAGE_BYTES, whole = piece->start + piece->size;
    uint64_t start = (piece->start + large - 1) & -large, end = whole & -large;
    if (start >= end)
        return 0;
    if (start == piece->start)
        snapshot->piece_count--;
    piece->size = start - piece->start;
    uint32_t protection = piece->protection;
    piece = add_piece(snapshot, start, end - start, protection);
    if (piece == NULL)
        return -1;
    piece->is_read = 1;
    return end == whole || add_piece(snapshot, end, whole - end, protection) != NULL ? 0 : -1;
}

/* Notes the pages of a mapping that are written; `file` is -1 for anonymous memory. */
static int find_pieces(struct Snapshot *snapshot, const struct Mapping *mapping, int file) {
    int is_split = file < 0 && (mapping->protection & PROT_WRITE) != 0;
    struct Piece *last = NULL;
    for (uint64_t page = mapping->start; page < mapping->end; page += PAGE_BYTES) {
        if (!is_used(page) &&
            !is_changed((const char *)page, file, mapping->offset + page - mapping->start))
            continue;
        if (last != NULL && page - (last->start + last->size) <= PAGES_TO_BRIDGE * PAGE_BYTES) {
            last->size = page + PAGE_BYTES - last->start;
            continue;
        }
        if (last != NULL && is_split && split_large(snapshot) < 0)
            return -1;
        last = add_piece(snapshot, page, PAGE_BYTES, mapping->protection);
        if (last == NULL)
            return -1;
    }
    return last != NULL && is_split ? split_large(snapshot) : 0;
}

/* Whether a file is this library: it need not exist any more when the process comes back. */
static int is_own(const char *name) {
    Dl_info found;
    return dladdr((const void *)is_own, &found) != 0 && strcmp(found.dli_fname, name) == 0;
}

/* One line of /proc/self/maps. */
static int add_mapping(struct Snapshot *snapshot, char *line) {
    uint64_t start, end, offset, inode;
    char rights[5];
    int begin = 0;
    if (sscanf(line, "%lx-%lx %4s %lx %*x:%*x %lu %n", &start, &end, rights, &offset, &inode,
               &begin) < 5)
        return refuse("/proc/self/maps is not understood");
    char *name = line + begin;
    name[strcspn(name, "\n")] = '\0';
    if (strcmp(name, "[vsyscall]") == 0)
        return 0;
    if (strcmp(name, "[vdso]") == 0 || strncmp(name, "[vvar", 5) == 0) {
        if (snapshot->special_count == MAX_SPECIAL)
            return refuse("too many mappings of the kernel's own");
        struct Special *special = &snapshot->special[snapshot->special_count++];
        special->start = start;
        special->end = end;
        return 0;
    }
    if (snapshot->mapping_count == MAX_MAPPINGS)
        return refuse("too many mappings");
    struct Mapping *mapping = &mappings[snapshot->mapping_count++];
    mapping->start = start;
    mapping->end = end;
    mapping->offset = offset;
    mapping->protection = (rights[0] == 'r' ? PROT_READ : 0) | (rights[1] == 'w' ? PROT_WRITE : 0) |
                          (rights[2] == 'x' ? PROT_EXEC : 0);
    if (rights[3] == 's' && rights[1] == 'w')
        return refuse("memory is shared with another process");
    int file = -1;
    if (inode != 0 && !is_own(name)) {
        struct stat status;
        if (name[0] != '/' || (file = open(name, O_RDONLY | O_CLOEXEC)) < 0)
            return refuse("a mapped file cannot be opened");
        if (fstat(file, &status) < 0 || status.st_ino != inode) {
            close(file);
            return refuse("a mapped file has been replaced");
        }
        mapping->file = state_of(&status);
        if (keep_text(name, &mapping->name) < 0) {
            close(file);
            return -1;
        }
    } else {
        mapping->offset = 0;
    }
    if (strcmp(name, "[stack]") == 0) { /* with the room that it had, which is not mapped yet */
        uint64_t room = 8 << 20;
        if (end - start < room)
            mapping->start = end - room;
    }
    int result = 0;
    if (mapping->protection & PROT_READ) {
        struct Mapping present = *mapping;
        present.start = start;
        result = find_pieces(snapshot, &present, file);
    } else if (mapping->protection != 0) {
        result = refuse("a mapping cannot be read");
    }
    if (file >= 0)
        close(file);
    return result;
}

static int read_mappings(struct Snapshot *snapshot) {
    static char lines[MAX_MAPPINGS][LINE_BYTES]; /* read first: reading changes the mappings */
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    if (maps == NULL)
        return refuse("/proc/self/maps cannot be read");
    while (count < MAX_MAPPINGS && fgets(lines[count], LINE_BYTES, maps) != NULL)
        count++;
    fclose(maps);
    for (int index = 0; index < count; index++)
        if (add_mapping(snapshot, lines[index]) < 0)
            return -1;
    return 0;
}

static int describe_thread(struct Snapshot *snapshot) {
    unsigned long base;
    void *list;
    size_t size;
    stack_t stack;
    if (syscall(SYS_arch_prctl, ARCH_GET_FS, &base) < 0)
        return refuse("the thread pointer cannot be read");
    snapshot->thread_pointer = base;
    snapshot->thread_id = base + THREAD_ID_OFFSET;
    if (*(int *)snapshot->thread_id != (int)syscall(SYS_gettid))
        return refuse("this C library keeps its threads in another way");
    if (syscall(SYS_get_robust_list, 0, &list, &size) < 0)
        return refuse("the list of robust locks cannot be read");
    snapshot->robust_list = (uint64_t)list;
    if (&__rseq_size != NULL && __rseq_size != 0) {
        snapshot->restartable = base + (uint64_t)__rseq_offset;
        snapshot->restartable_bytes = RESTARTABLE_BYTES;
    }
    sigaltstack(NULL, &stack);
    snapshot->has_signal_stack = !(stack.ss_flags & SS_DISABLE);
    snapshot->signal_stack = (uint64_t)stack.ss_sp;
    snapshot->signal_stack_bytes = stack.ss_size;
    return 0;
}

static int write_all(int file, const void *bytes, size_t size, uint64_t offset) {
    for (size_t done = 0; done < size;) {
        ssize_t more = pwrite(file, (const char *)bytes + done, size - done,
                              (off_t)(offset + done));
        if (more < 0 && errno == EINTR)
            continue;
        if (more <= 0)
            return refuse("the file cannot be written");
        done += (size_t)more;
    }
    return 0;
}

static uint64_t place_table(uint64_t *offset, uint64_t size) {
    uint64_t here = *offset;
    *offset += (size + 15) / 16 * 16;
    return here;
}

/* Called by save_and_write below, with what is needed to come back to it. */
__attribute__((used, visibility("hidden"))) int write_snapshot(const char *name, const char *build,
                                                               const struct Place *place) {
    static struct Snapshot snapshot;
    struct utsname kernel;
    uint64_t offset = sizeof snapshot;
    memset(&snapshot, 0, sizeof snapshot);
    memset(&resumed, 0, sizeof resumed);
    snapshot.format = SNAPSHOT_FORMAT;
    snapshot.stack_pointer = place->stack_pointer;
    snapshot.instruction = place->instruction;
    snapshot.resumed = (uint64_t)&resumed;
    snapshot.vdso = getauxval(AT_SYSINFO_EHDR);
    describe_cpu(snapshot.cpu);
    uname(&kernel);
    snprintf(snapshot.kernel, sizeof snapshot.kernel, "%s", kernel.release);
    snprintf(snapshot.kernel_version, sizeof snapshot.kernel_version, "%s", kernel.version);
    snprintf(snapshot.build, sizeof snapshot.build, "%s", build);
    if (describe_thread(&snapshot) < 0 || read_mappings(&snapshot) < 0)
        return -1;
    snapshot.source_count = source_count;
    snapshot.mappings = place_table(&offset, snapshot.mapping_count * sizeof *mappings);
    snapshot.pieces = place_table(&offset, snapshot.piece_count * sizeof *pieces);
    snapshot.sources = place_table(&offset, source_count * sizeof *sources);
    snapshot.texts = place_table(&offset, text_bytes);
    snapshot.table_bytes = offset;
    if (offset > MAX_TABLE_BYTES)
        return refuse("too many files are mapped and imported");
    offset = (offset + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    for (uint64_t index = 0; index < snapshot.piece_count; index++)
        pieces[index].offset = place_table(&offset, pieces[index].size);
    snapshot.file_bytes = offset;
    int file = open(name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644);
    if (file < 0)
        return refuse("the file cannot be made");
    int failed = write_all(file, mappings, snapshot.mapping_count * sizeof *mappings,
                           snapshot.mappings) < 0 ||
                 write_all(file, pieces, snapshot.piece_count * sizeof *pieces,
                           snapshot.pieces) < 0 ||
                 write_all(file, sources, source_count * sizeof *sources, snapshot.sources) < 0 ||
                 write_all(file, texts, text_bytes, snapshot.texts) < 0;
    for (uint64_t index = 0; !failed && index < snapshot.piece_count; index++)
        failed = write_all(file, (const void *)pieces[index].start, pieces[index].size,
                           pieces[index].offset) < 0;
    failed = failed || write_all(file, &snapshot, sizeof snapshot, 0) < 0 || fsync(file) < 0;
    close(file);
    return failed ? -1 : 0;
}

/* Saves the registers that a call keeps, and calls write_snapshot; returns what that returns, and 1
 * when the process has come back. */
int save_and_write(const char *name, const char *build, struct Place *place);
__asm__(".text\n"
        ".type save_and_write, @function\n"
        "save_and_write:\n"
        "push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n sub $8, %rsp\n"
        "mov %rsp, (%rdx)\n"
        "lea 1f(%rip), %rax\n"
        "mov %rax, 8(%rdx)\n"
        "call write_snapshot\n"
        "2: add $8, %rsp\n"
        "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n"
        "ret\n"
        "1: mov $1, %eax\n"
        "jmp 2b\n");

/* 0: the snapshot is written; 1: this process is one that came back; -1: see the reason. */
int tileiras_snapshot_write(const char *name, const char *build) {
    struct Place place;
    malloc_trim(0); /* pages of the heap that hold nothing are not written */
    int result = save_and_write(name, build, &place);
    if (result == 1) {
        environ = resumed.environment;
        /* The heap's end is elsewhere now: libc asks for it anew, and takes it for memory that
         * somebody else has put between. */
        brk((void *)syscall(SYS_brk, NULL));
    }
    return result;
}
