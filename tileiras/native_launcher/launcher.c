/* The command `tileiras` as a native program: asks the resident compiler where that is allowed, and
 * else becomes Python with everything prepared. What it does, and why: __init__.py beside this.
 *
 * It takes a short cut and decides nothing: whatever it does not understand it leaves to Python,
 * whose `tileiras/resident/client.py` does the same and more.
 *
 * Defined by the build (__main__.py), all of them absolute paths or Python text:
 *   PYTHON      the interpreter
 *   ISOLATED    what it runs without PYTHON* variables
 *   ALONE       the same, but not by the resident compiler, which has been asked
 *   ORDINARY    what it runs with them
 *   SOCKET      the name of the resident compiler's socket, for UTF-8
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

extern char **environ;

enum { ANSWER_BYTES = 5, MAX_REQUEST_BYTES = 8 << 20 };
enum { STARTED = 'S', ENDED = 'E' };

static const struct {
    int number;
    const char *message;
} REASONS[] = {
    {SIGINT, "error: interrupted\n"},
    {SIGTERM, "error: terminated\n"},
    {SIGHUP, "error: hung up\n"},
};
enum { REASON_COUNT = sizeof REASONS / sizeof *REASONS };

static volatile sig_atomic_t compiling_process;

/* --- what Python is started with ------------------------------------------------------------- */

static int is_set(const char *name) {
    const char *value = getenv(name);
    return value != NULL && *value != '\0';
}

static int begins_with(const char *text, const char *beginning) {
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* Whether a variable changes what Python does, beyond what its flags -u and -B say. */
static int python_is_changed(void) {
    for (char **entry = environ; *entry != NULL; entry++)
        if (begins_with(*entry, "PYTHON") && !begins_with(*entry, "PYTHONUNBUFFERED=") &&
            !begins_with(*entry, "PYTHONDONTWRITEBYTECODE="))
            return 1;
    return 0;
}

/* Keeps the signals that end a command waiting until Python can say so in one line: the text that
 * it runs lets them through, by the numbers written to `held`. Those that are blocked already are
 * the caller's. */
static void hold_signals(sigset_t *before, char *held, size_t room) {
    sigset_t ours;
    int size = snprintf(held, room, "held=");
    sigemptyset(&ours);
    sigprocmask(SIG_BLOCK, NULL, before);
    for (int index = 0; index < REASON_COUNT; index++)
        if (!sigismember(before, REASONS[index].number)) {
            sigaddset(&ours, REASONS[index].number);
            size += snprintf(held + size, room - (size_t)size, "%d ", REASONS[index].number);
        }
    sigprocmask(SIG_BLOCK, &ours, NULL);
}

/* Becomes this interpreter; returns where that cannot be. */
static void become(char *python, int isolated, char *text, int argc, char **argv) {
    char **words = malloc((size_t)(argc + 10) * sizeof *words);
    char held[64];
    sigset_t before;
    int count = 0;
    if (words == NULL)
        return;
    words[count++] = python;
    words[count++] = "-X";
    words[count++] = held;
    if (isolated) {
        words[count++] = "-I";
        words[count++] = "-S";
        if (is_set("PYTHONUNBUFFERED"))
            words[count++] = "-u";
        if (is_set("PYTHONDONTWRITEBYTECODE"))
            words[count++] = "-B";
    } else {
        words[count++] = "-P";
    }
    words[count++] = "-c";
    words[count++] = text;
    for (int index = 1; index < argc; index++)
        words[count++] = argv[index];
    words[count] = NULL;
    hold_signals(&before, held, sizeof held);
    execv(python, words);
    int error = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    free(words);
    errno = error;
}

/* The interpreter beside this program: that of an environment that has been moved. */
static int find_neighbour(char *python, size_t room) {
    static const char NAME[] = "python";
    ssize_t size = readlink("/proc/self/exe", python, room);
    if (size <= 0 || (size_t)size >= room)
        return 0;
    while (size > 0 && python[size - 1] != '/')
        size--;
    if ((size_t)size + sizeof NAME > room)
        return 0;
    memcpy(python + size, NAME, sizeof NAME);
    return 1;
}

/* Becomes Python; returns 127, as shells do, where that cannot be. */
static int become_python(int argc, char **argv, int asked) {
    int isolated = !python_is_changed();
    char neighbour[PATH_MAX];
    become(PYTHON, isolated, !isolated ? ORDINARY : asked ? ALONE : ISOLATED, argc, argv);
    int error = errno;
    if (find_neighbour(neighbour, sizeof neighbour))
        become(neighbour, 0, ORDINARY, argc, argv);
    fprintf(stderr, "error: unable to start '%s': %s\n", PYTHON, strerror(error));
    return 127;
}

/* --- a request, in the format of Python's marshal -------------------------------------------- */

struct Text {
    unsigned char *bytes;
    size_t size, room;
    int failed;
};

static void put(struct Text *text, const void *bytes, size_t size) {
    if (text->failed)
        return;
    if (text->room - text->size < size) {
        size_t room = 2 * text->room + size;
        unsigned char *grown = room > 2 * MAX_REQUEST_BYTES ? NULL : realloc(text->bytes, room);
        if (grown == NULL) {
            text->failed = 1;
            return;
        }
        text->bytes = grown;
        text->room = room;
    }
    memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
}

static void put_number(struct Text *text, char kind, uint32_t number) {
    unsigned char bytes[5] = {(unsigned char)kind, (unsigned char)number,
                              (unsigned char)(number >> 8), (unsigned char)(number >> 16),
                              (unsigned char)(number >> 24)};
    put(text, bytes, sizeof bytes);
}

/* As bytes, not text: the server decodes them as Python does. */
static void put_bytes(struct Text *text, const char *bytes, size_t size) {
    put_number(text, 's', (uint32_t)size);
    put(text, bytes, size);
}

static void put_string(struct Text *text, const char *string) {
    put_bytes(text, string, strlen(string));
}

static void put_ascii(struct Text *text, const char *string) {
    put_number(text, 'u', (uint32_t)strlen(string));
    put(text, string, strlen(string));
}

static void put_environment(struct Text *text) {
    put(text, "{", 1);
    for (char **entry = environ; *entry != NULL; entry++) {
        const char *end = strchr(*entry, '=');
        if (end == NULL)
            continue;
        size_t size = (size_t)(end - *entry) + 1;
        int is_first = 1;
        for (char **other = environ; other != entry && is_first; other++)
            is_first = strncmp(*other, *entry, size) != 0;
        if (!is_first)
            continue;
        put_bytes(text, *entry, size - 1);
        put_string(text, end + 1);
    }
    put(text, "0", 1);
}

static int is_ignored(int number) {
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* Encoding, what is done with errors, and whether lines are written at once, of three streams. */
static void put_streams(struct Text *text, int lenient) {
    int buffered = !is_set("PYTHONUNBUFFERED");
    const char *ordinary = lenient ? "surrogateescape" : "strict";
    put_number(text, '[', 3);
    for (int number = 0; number < 3; number++) {
        put_number(text, '(', 3);
        put_ascii(text, "utf-8");
        put_ascii(text, number == 2 ? "backslashreplace" : ordinary);
        put(text, buffered && (number == 2 || isatty(number)) ? "T" : "F", 1);
    }
}

static void put_request(struct Text *text, int argc, char **argv, int lenient) {
    mode_t mask = umask(077);
    umask(mask);
    put_number(text, '(', 6);
    put_string(text, argv[0]);
    put_number(text, '[', (uint32_t)(argc - 1));
    for (int index = 1; index < argc; index++)
        put_string(text, argv[index]);
    put_environment(text);
    put_number(text, 'i', (uint32_t)mask);
    uint32_t ignored = 0;
    for (int index = 0; index < REASON_COUNT; index++)
        ignored += is_ignored(REASONS[index].number) ? 1 : 0;
    put_number(text, '[', ignored);
    for (int index = 0; index < REASON_COUNT; index++)
        if (is_ignored(REASONS[index].number))
            put_number(text, 'i', (uint32_t)REASONS[index].number);
    put_streams(text, lenient);
}

/* --- the resident compiler -------------------------------------------------------------------- */

/* Whether the user allows the resident compiler, and a fork of it would do the same. */
static int is_allowed(int argc, char **argv) {
    const char *variable = getenv("TILEIRAS_SERVER");
    int named = variable != NULL && strcmp(variable, "1") == 0;
    for (int index = 1; index < argc; index++) {
        const char *word = argv[index];
        named |= strcmp(word, "--server") == 0 || strcmp(word, "-server") == 0;
        if (strstr(word, "/dev/fd/") || strstr(word, "/proc/self/") ||
            strstr(word, "/proc/thread-self/"))
            return 0;
    }
    for (int number = 0; number < 3; number++)
        if (fcntl(number, F_GETFD) < 0)
            return 0;
    return named && !python_is_changed();
}

/* Whether Python would take text for UTF-8; `lenient`: and would not refuse what is none. */
static int has_utf8(int *lenient) {
    const char *name = setlocale(LC_CTYPE, "");
    if (name == NULL)
        name = "C";
    *lenient = strcmp(name, "C") == 0 || strcmp(name, "POSIX") == 0 ||
               strcmp(name, "C.UTF-8") == 0 || strcmp(name, "C.utf8") == 0;
    int plain = strcmp(name, "C") == 0 || strcmp(name, "POSIX") == 0;
    return plain || strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* The socket's place; 0 where there is no private folder for it. */
static int find_socket(struct sockaddr_un *address) {
    const char *base = getenv("XDG_RUNTIME_DIR");
    struct stat status;
    char folder[sizeof address->sun_path];
    int size;
    if (base != NULL && *base != '\0' && stat(base, &status) == 0 && S_ISDIR(status.st_mode))
        size = snprintf(folder, sizeof folder, "%s/tileiras", base);
    else
        size = snprintf(folder, sizeof folder, "/tmp/tileiras-%lu", (unsigned long)geteuid());
    if (size >= (int)sizeof folder || lstat(folder, &status) < 0)
        return 0;
    if (!S_ISDIR(status.st_mode) || (status.st_mode & 077) != 0 || status.st_uid != geteuid())
        return 0;
    address->sun_family = AF_UNIX;
    size = snprintf(address->sun_path, sizeof address->sun_path, "%s/%s", folder, SOCKET);
    return size < (int)sizeof address->sun_path;
}

static int send_all(int connection, const unsigned char *bytes, size_t size) {
    while (size > 0) {
        ssize_t sent = send(connection, bytes, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return 0;
        bytes += sent;
        size -= (size_t)sent;
    }
    return 1;
}

/* The size of the request, with the standard streams and the current folder. */
static int send_head(int connection, uint32_t size, int folder) {
    int passed[4] = {0, 1, 2, folder};
    unsigned char head[4] = {(unsigned char)size, (unsigned char)(size >> 8),
                             (unsigned char)(size >> 16), (unsigned char)(size >> 24)};
    union {
        char bytes[CMSG_SPACE(sizeof passed)];
        struct cmsghdr aligned;
    } control = {{0}};
    struct iovec piece = {head, sizeof head};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *first = CMSG_FIRSTHDR(&message);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(sizeof passed);
    memcpy(CMSG_DATA(first), passed, sizeof passed);
    ssize_t sent;
    do
        sent = sendmsg(connection, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof head;
}

/* A signal ends a command that waits for an answer; later it goes to the process that compiles. */
static void forward(int number) {
    if (compiling_process != 0) {
        int error = errno;
        kill((pid_t)compiling_process, number);
        errno = error;
        return;
    }
    for (int index = 0; index < REASON_COUNT; index++)
        if (REASONS[index].number == number) {
            const char *message = REASONS[index].message;
            ssize_t written = write(2, message, strlen(message));
            (void)written;
        }
    _exit(128 + number);
}

static void handle_signals(void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    for (int index = 0; index < REASON_COUNT; index++)
        if (!is_ignored(REASONS[index].number))
            sigaction(REASONS[index].number, &action, NULL);
}

static int receive_answer(int connection, unsigned char *answer) {
    for (size_t had = 0; had < ANSWER_BYTES;) {
        ssize_t more = recv(connection, answer + had, ANSWER_BYTES - had, 0);
        if (more < 0 && errno == EINTR)
            continue;
        if (more <= 0)
            return 0;
        had += (size_t)more;
    }
    return 1;
}

/* The exit code that the server tells; -1: it has not compiled. */
static int wait_for_end(int connection) {
    unsigned char answer[ANSWER_BYTES];
    while (receive_answer(connection, answer)) {
        uint32_t number = (uint32_t)answer[1] | (uint32_t)answer[2] << 8 |
                          (uint32_t)answer[3] << 16 | (uint32_t)answer[4] << 24;
        if (answer[0] == ENDED)
            return (int)number;
        if (answer[0] != STARTED)
            return -1;
        compiling_process = (sig_atomic_t)number;
    }
    return -1;
}

/* The exit code of a compilation by the resident compiler; -1 where there is none.
 * `asked` tells whether one was asked. */
static int compile_there(int argc, char **argv, int *asked) {
    struct sockaddr_un address;
    struct ucred peer;
    socklen_t size = sizeof peer;
    int lenient, code = -1;
    memset(&address, 0, sizeof address);
    if (!has_utf8(&lenient) || !find_socket(&address))
        return -1;
    int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int folder = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct Text request = {0};
    put_request(&request, argc, argv, lenient);
    if (connection >= 0 && folder >= 0 && !request.failed && request.size <= MAX_REQUEST_BYTES &&
        connect(connection, (struct sockaddr *)&address, sizeof address) == 0 &&
        getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
        peer.uid == geteuid()) {
        *asked = 1;
        handle_signals(forward);
        if (send_head(connection, (uint32_t)request.size, folder) &&
            send_all(connection, request.bytes, request.size))
            code = wait_for_end(connection);
        compiling_process = 0;
        handle_signals(SIG_DFL);
    }
    free(request.bytes);
    if (folder >= 0)
        close(folder);
    if (connection >= 0)
        close(connection);
    return code;
}

int main(int argc, char **argv) {
    int asked = 0;
    if (argc < 1)
        return 127;
    if (is_allowed(argc, argv)) {
        int code = compile_there(argc, argv, &asked);
        if (code >= 0)
            return code;
    }
    return become_python(argc, argv, asked);
}
