/* The command `tileiras` where a snapshot of a warmed process exists: brings that process back.
 *
 * Where the snapshot does not fit (another kernel, processor, library or source, a variable that
 * changes Python, an address that is taken), it becomes the ordinary program (launcher.c), which
 * does the same and takes longer. Until it jumps, nothing that it did outlives that step.
 *
 * Static and without a C library, so that nothing of its own is where the process was; linked at an
 * address above the heap of that process, whose end would else be moved backwards.
 *
 * The kernel gives a new process addresses by chance. Where one of them is needed (once in some
 * thousands of starts), this program starts itself again, MAX_STARTS times at most.
 *
 * Defined by the build (__main__.py): SNAPSHOT, LAUNCHER: absolute paths; BUILD: a text that
 * snapshot and starter share; VARIABLE: a name; 0 leaves the snapshot alone, 1 says why it is not
 * used; STARTS: the name of a variable by which it tells itself how often it has been started.
 */
#include "snapshot.h"
#include <asm/prctl.h>
#include <asm/unistd.h>
#include <linux/auxvec.h>
#include <linux/limits.h>
#include <linux/utsname.h>
#include <stddef.h>

typedef long (*Unused)(void);
struct Stat { /* struct stat of x86-64 */
    uint64_t device, inode, links;
    uint32_t mode, user, group, unused;
    uint64_t special_device;
    int64_t size, block, blocks;
    int64_t accessed, accessed_nanoseconds, seconds, nanoseconds, changed, changed_nanoseconds;
    int64_t reserved[3];
};

enum { O_CLOEXEC_ = 02000000, AT_FDCWD_ = -100, F_GETFD_ = 1 };
enum { PROT_READ_ = 1, MAP_PRIVATE_ = 2, MAP_FIXED_ = 0x10, MAP_ANONYMOUS_ = 0x20,
       MAP_NORESERVE_ = 0x4000, MAP_POPULATE_ = 0x8000, MAP_FIXED_NOREPLACE_ = 0x100000 };
enum { MADV_HUGEPAGE_ = 14, EEXIST_ = 17, MAX_STARTS = 4 };
enum { MREMAP_MAYMOVE_AND_FIXED_ = 3, RSEQ_SIGNATURE_ = 0x53053053, SIG_BLOCK_ = 0, SIG_SETMASK_ = 2 };

static char **arguments, **environment;
static uint64_t signals_before;
static int starts = 1;

static long call(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static size_t length(const char *text) {
    size_t size = 0;
    while (text[size] != '\0')
        size++;
    return size;
}

static int begins_with(const char *text, const char *beginning) {
    while (*beginning != '\0')
        if (*text++ != *beginning++)
            return 0;
    return 1;
}

static int equal(const char *one, const char *other) {
    return begins_with(one, other) && one[length(other)] == '\0';
}

static void say(const char *text) { call(__NR_write, 2, (long)text, (long)length(text), 0, 0, 0); }

/* The value of a variable; NULL where it is not set. */
static const char *value_of(const char *name) {
    for (char **entry = environment; *entry != NULL; entry++)
        if (begins_with(*entry, name) && (*entry)[length(name)] == '=')
            return *entry + length(name) + 1;
    return NULL;
}

/* Where this program is, which may have been moved; 0 where that is not known. */
static size_t own_name(char *name, size_t room) {
    long size = call(__NR_readlink, (long)"/proc/self/exe", (long)name, (long)room, 0, 0, 0);
    if (size <= 0 || (size_t)size >= room)
        return 0;
    name[size] = '\0';
    return (size_t)size;
}

/* Becomes the ordinary program; the one beside this program where all has been moved. */
static void give_up(const char *reason) {
    const char *wish = value_of(VARIABLE);
    if (reason != NULL && wish != NULL && equal(wish, "1")) {
        say("note: the snapshot is not used: ");
        say(reason);
        say("\n");
    }
    call(__NR_rt_sigprocmask, SIG_SETMASK_, (long)&signals_before, 0, 8, 0, 0);
    call(__NR_execve, (long)LAUNCHER, (long)arguments, (long)environment, 0, 0, 0);
    static const char ENDING[] = ".launcher";
    char beside[PATH_MAX + sizeof ENDING];
    size_t size = own_name(beside, PATH_MAX);
    if (size > 0) {
        for (size_t index = 0; index < sizeof ENDING; index++)
            beside[size + index] = ENDING[index];
        call(__NR_execve, (long)beside, (long)arguments, (long)environment, 0, 0, 0);
    }
    say("error: unable to start '" LAUNCHER "'\n");
    call(__NR_exit_group, 127, 0, 0, 0, 0, 0);
    __builtin_unreachable();
}

/* --- starting again: other addresses, by chance ------------------------------------------------ */

enum { MASK_DIGITS = 16 };

/* Takes the variable that an earlier start has left out of the environment: how many there were,
 * and the signals that the caller blocks. Those that came since then still wait. */
static void read_starts(void) {
    char **kept = environment;
    for (char **entry = environment; *entry != NULL; entry++) {
        const char *digits = *entry + sizeof STARTS;
        if (!begins_with(*entry, STARTS "=") || length(digits) != MASK_DIGITS + 1) {
            *kept++ = *entry;
            continue;
        }
        starts = digits[0] - '0';
        signals_before = 0;
        for (int index = 1; index <= MASK_DIGITS; index++)
            signals_before = signals_before << 4 | (uint64_t)(digits[index] - 'a');
    }
    *kept = NULL;
}

/* Returns where that cannot be. The new variable's place is where the environment's end was, and
 * what the kernel tells behind it is not needed any more. */
static void start_again(void) {
    static char entry[] = STARTS "=0aaaaaaaaaaaaaaaa";
    char name[PATH_MAX], **end = environment;
    char *digits = entry + sizeof STARTS;
    if (starts < 1 || starts >= MAX_STARTS || own_name(name, sizeof name) == 0)
        return;
    while (*end != NULL)
        end++;
    digits[0] = (char)('1' + starts);
    for (int index = 1; index <= MASK_DIGITS; index++)
        digits[index] = (char)('a' + (signals_before >> (4 * (MASK_DIGITS - index)) & 15));
    end[0] = entry;
    end[1] = NULL;
    call(__NR_execve, (long)name, (long)arguments, (long)environment, 0, 0, 0);
    end[0] = NULL;
}

/* --- whether this process is one that the snapshot serves -------------------------------------- */

/* Variables that change Python, the C library or where the command is done. */
static void check_variables(void) {
    static const char *const CHANGING[] = {"GLIBC_", "MALLOC_CHECK_=", "MALLOC_PERTURB_=",
                                           "LOCPATH=", "_TILEIRAS_COMPLETE="};
    const char *wish = value_of(VARIABLE);
    const char *server = value_of("TILEIRAS_SERVER");
    if (wish != NULL && equal(wish, "0"))
        give_up(NULL);
    if (server != NULL && equal(server, "1"))
        give_up("the resident compiler is asked for");
    for (char **entry = environment; *entry != NULL; entry++) {
        if (begins_with(*entry, "PYTHON") && !begins_with(*entry, "PYTHONUNBUFFERED=") &&
            !begins_with(*entry, "PYTHONDONTWRITEBYTECODE="))
            give_up("a variable changes Python");
        /* Where to look for libraries is no matter: those that are needed are in the snapshot. */
        if (begins_with(*entry, "LD_") && !begins_with(*entry, "LD_LIBRARY_PATH="))
            give_up("a variable changes how programs start");
        for (size_t index = 0; index < sizeof CHANGING / sizeof *CHANGING; index++)
            if (begins_with(*entry, CHANGING[index]))
                give_up("a variable changes how programs start");
    }
    for (char **word = arguments + 1; *word != NULL; word++)
        if (equal(*word, "--server") || equal(*word, "-server"))
            give_up("the resident compiler is asked for");
    for (int number = 0; number < 3; number++)
        if (call(__NR_fcntl, number, F_GETFD_, 0, 0, 0, 0) < 0)
            give_up("a standard stream is closed");
}

/* Only texts in UTF-8 are those of the snapshot; what a locale means is asked again later. */
static void check_locale(void) {
    static const char *const NAMES[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    static const char *const KNOWN[] = {"C", "POSIX", "C.UTF-8", "C.utf8"};
    const char *name = NULL;
    for (int index = 0; index < 3 && (name == NULL || *name == '\0'); index++)
        name = value_of(NAMES[index]);
    if (name == NULL || *name == '\0')
        return;
    for (size_t index = 0; index < sizeof KNOWN / sizeof *KNOWN; index++)
        if (equal(name, KNOWN[index]))
            return;
    size_t size = length(name);
    if (size > 6 && equal(name + size - 6, ".UTF-8"))
        return;
    if (size > 5 && equal(name + size - 5, ".utf8"))
        return;
    give_up("the locale is not one of UTF-8");
}

static int is_same(const struct FileState *was, const struct Stat *is) {
    return was->size == (uint64_t)is->size && was->inode == is->inode &&
           was->seconds == is->seconds && was->nanoseconds == is->nanoseconds;
}

static void check_machine(const struct Snapshot *snapshot) {
    struct new_utsname kernel;
    uint32_t cpu[CPU_WORDS];
    call(__NR_uname, (long)&kernel, 0, 0, 0, 0, 0);
    if (!equal(kernel.release, snapshot->kernel) ||
        !equal(kernel.version, snapshot->kernel_version))
        give_up("the kernel is another one");
    describe_cpu(cpu);
    for (int index = 0; index < CPU_WORDS; index++)
        if (cpu[index] != snapshot->cpu[index])
            give_up("the processor is another one");
}

static void check_sources(const struct Snapshot *snapshot) {
    const char *base = (const char *)snapshot, *texts = base + snapshot->texts;
    const struct Source *source = (const struct Source *)(base + snapshot->sources);
    struct Stat status;
    for (uint64_t index = 0; index < snapshot->source_count; index++, source++)
        if (call(__NR_newfstatat, AT_FDCWD_, (long)(texts + source->name), (long)&status, 0, 0,
                 0) < 0 ||
            !is_same(&source->file, &status))
            give_up("a source has changed");
}

/* --- bringing it back -------------------------------------------------------------------------- */

static const struct Snapshot *open_snapshot(int *file) {
    struct Stat status;
    long opened = call(__NR_open, (long)SNAPSHOT, O_CLOEXEC_, 0, 0, 0, 0);
    if (opened < 0)
        give_up("there is none");
    *file = (int)opened;
    if (call(__NR_fstat, opened, (long)&status, 0, 0, 0, 0) < 0 || (status.mode & 022) != 0)
        give_up("others may write it");
    if (status.size < PAGE_BYTES)
        give_up("it is damaged");
    long at = call(__NR_mmap, 0, MAX_TABLE_BYTES, PROT_READ_, MAP_PRIVATE_ | MAP_POPULATE_, opened,
                   0);
    if (at < 0 && at > -PAGE_BYTES)
        give_up("no memory is left");
    const struct Snapshot *snapshot = (const struct Snapshot *)at;
    if (snapshot->format != SNAPSHOT_FORMAT || !equal(snapshot->build, BUILD))
        give_up("it is of another build");
    if (snapshot->file_bytes != (uint64_t)status.size || snapshot->table_bytes > MAX_TABLE_BYTES)
        give_up("it is damaged");
    return snapshot;
}

static void map(uint64_t start, uint64_t size, uint32_t protection, int flags, int file,
                uint64_t offset) {
    long at = call(__NR_mmap, (long)start, (long)size, protection, flags, file, (long)offset);
    if ((uint64_t)at == start)
        return;
    if (at == -EEXIST_)
        start_again();
    give_up("an address is taken");
}

/* All mappings, at addresses where nothing is. */
static void map_all(const struct Snapshot *snapshot) {
    const char *base = (const char *)snapshot, *texts = base + snapshot->texts;
    const struct Mapping *mapping = (const struct Mapping *)(base + snapshot->mappings);
    const char *opened = NULL;
    long file = -1;
    for (uint64_t index = 0; index < snapshot->mapping_count; index++, mapping++) {
        int flags = MAP_PRIVATE_ | MAP_FIXED_NOREPLACE_;
        const char *name = texts + mapping->name;
        if (mapping->file.inode == 0) {
            flags |= MAP_ANONYMOUS_ | MAP_NORESERVE_;
        } else if (opened == NULL || !equal(opened, name)) {
            struct Stat status;
            if (file >= 0)
                call(__NR_close, file, 0, 0, 0, 0, 0);
            file = call(__NR_open, (long)name, O_CLOEXEC_, 0, 0, 0, 0);
            if (file < 0 || call(__NR_fstat, file, (long)&status, 0, 0, 0, 0) < 0 ||
                !is_same(&mapping->file, &status))
                give_up("a library has changed");
            opened = name;
        }
        map(mapping->start, mapping->end - mapping->start, mapping->protection, flags,
            mapping->file.inode == 0 ? -1 : (int)file, mapping->offset);
    }
    if (file >= 0)
        call(__NR_close, file, 0, 0, 0, 0, 0);
}

/* Fills memory that a compilation writes to nearly everywhere: in large pages, where the kernel
 * gives them, that is one fault for 512. */
static void read_piece(const struct Piece *piece, int file) {
    call(__NR_madvise, (long)piece->start, (long)piece->size, MADV_HUGEPAGE_, 0, 0, 0);
    for (uint64_t done = 0; done < piece->size;) {
        long more = call(__NR_pread64, file, (long)(piece->start + done),
                         (long)(piece->size - done), (long)(piece->offset + done), 0, 0);
        if (more <= 0)
            give_up("it cannot be read");
        done += (uint64_t)more;
    }
}

static void map_pieces(const struct Snapshot *snapshot, int file) {
    const struct Piece *piece =
        (const struct Piece *)((const char *)snapshot + snapshot->pieces);
    for (uint64_t index = 0; index < snapshot->piece_count; index++, piece++)
        if (piece->is_read)
            read_piece(piece, file);
        else
            map(piece->start, piece->size, piece->protection, MAP_PRIVATE_ | MAP_FIXED_, file,
                piece->offset);
}

/* The vdso and its data go where the process knows them. */
static void move_special(const struct Snapshot *snapshot, uint64_t vdso) {
    int64_t distance = (int64_t)(snapshot->vdso - vdso);
    if (distance == 0)
        return;
    for (uint64_t index = 0; index < snapshot->special_count; index++) {
        const struct Special *special = &snapshot->special[index];
        uint64_t size = special->end - special->start;
        map(special->start, size, 0, MAP_PRIVATE_ | MAP_FIXED_NOREPLACE_ | MAP_ANONYMOUS_, -1, 0);
    }
    for (uint64_t index = 0; index < snapshot->special_count; index++) {
        const struct Special *special = &snapshot->special[index];
        uint64_t size = special->end - special->start;
        long at = call(__NR_mremap, (long)(special->start - (uint64_t)distance), (long)size,
                       (long)size, MREMAP_MAYMOVE_AND_FIXED_, (long)special->start, 0);
        if ((uint64_t)at != special->start)
            give_up("the kernel's own mappings are others");
    }
}

struct Action { /* of the kernel, not of the C library */
    uint64_t handler, flags, restorer, mask;
};

/* The signals that end a command: those that wait from now on (the caller may have blocked them
 * already), and those that are ignored. */
static void hold_signals(uint64_t *held, uint64_t *ignored) {
    static const int NUMBERS[] = {1, 2, 15}; /* SIGHUP, SIGINT, SIGTERM */
    uint64_t ours = 0;
    *ignored = 0;
    for (int index = 0; index < 3; index++) {
        struct Action action = {0};
        uint64_t bit = 1ull << (NUMBERS[index] - 1);
        ours |= bit;
        call(__NR_rt_sigaction, NUMBERS[index], 0, (long)&action, 8, 0, 0);
        if (action.handler == 1)
            *ignored |= bit;
    }
    call(__NR_rt_sigprocmask, SIG_BLOCK_, (long)&ours, (long)&signals_before, 8, 0, 0);
    *held = ours;
}

__attribute__((used, noreturn)) static void start(long *words) {
    uint64_t held, ignored, vdso = 0;
    int file;
    arguments = (char **)(words + 1);
    environment = arguments + words[0] + 1;
    char **entry = environment;
    while (*entry != NULL)
        entry++;
    for (uint64_t *word = (uint64_t *)(entry + 1); word[0] != AT_NULL; word += 2)
        if (word[0] == AT_SYSINFO_EHDR)
            vdso = word[1];
    hold_signals(&held, &ignored);
    read_starts();
    held &= ~signals_before;
    if (words[0] < 1)
        give_up("the command has no name");
    check_variables();
    check_locale();
    const struct Snapshot *snapshot = open_snapshot(&file);
    check_machine(snapshot);
    check_sources(snapshot);
    map_all(snapshot);
    map_pieces(snapshot, file);
    call(__NR_close, file, 0, 0, 0, 0, 0);
    move_special(snapshot, vdso);

    struct Resumed *resumed = (struct Resumed *)snapshot->resumed;
    resumed->argument_count = words[0];
    resumed->arguments = arguments;
    resumed->environment = environment;
    resumed->held = held;
    resumed->ignored = ignored;
    long thread = call(__NR_set_tid_address, (long)snapshot->thread_id, 0, 0, 0, 0, 0);
    *(int *)snapshot->thread_id = (int)thread;
    call(__NR_set_robust_list, (long)snapshot->robust_list, 24, 0, 0, 0, 0);
    if (snapshot->restartable_bytes != 0 &&
        call(__NR_rseq, (long)snapshot->restartable, (long)snapshot->restartable_bytes, 0,
             RSEQ_SIGNATURE_, 0, 0) < 0)
        give_up("the kernel has no restartable sequences");
    if (snapshot->has_signal_stack) {
        struct {
            uint64_t start;
            uint64_t flags;
            uint64_t size;
        } stack = {snapshot->signal_stack, 0, snapshot->signal_stack_bytes};
        call(__NR_sigaltstack, (long)&stack, 0, 0, 0, 0, 0);
    }
    call(__NR_arch_prctl, ARCH_SET_FS, (long)snapshot->thread_pointer, 0, 0, 0, 0);
    __asm__ volatile("mov %0, %%rsp\n jmp *%1"
                     :
                     : "r"(snapshot->stack_pointer), "r"(snapshot->instruction));
    __builtin_unreachable();
}

__asm__(".globl _start\n"
        "_start: mov %rsp, %rdi\n"
        "and $-16, %rsp\n"
        "call start\n");
