/* Path 2/13: beside ring.c, the socket on which a session attaches, sends requests and gets
 * answers.
 * Served from X's main loop, never waiting: a session that does not read its messages is detached.
 * One session at a time; a new one takes over. Knows messages and descriptors; never what a session
 * does with them. */
#include "thinc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <os.h>

/* 4: connections that have not sent ATTACH yet. Only this user can make them; further ones are
 * closed at once. */
#define WAITING 4

/* ring, framebuffer, eventfd, input socket, video */
#define HELLO_FDS 5

static struct {
    int listening;
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    int consumer; /* -1: no session is attached */
    int waiting[WAITING];
} control = {.listening = -1, .consumer = -1, .waiting = {-1, -1, -1, -1}};

static void serve(int fd, int ready, void *closure);

/* ---- sending --------------------------------------------------------------------------------- */
static bool send_message(int fd, const void *message, size_t bytes, const int *fds, int count) {
    struct iovec part = {.iov_base = (void *)message, .iov_len = bytes};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(HELLO_FDS * sizeof(int))];
    } ancillary;
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        memset(&ancillary, 0, sizeof ancillary);
        header.msg_control = &ancillary;
        header.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, (size_t)count * sizeof(int));
    }
    return sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)bytes;
}

static void send_error(int fd, uint32_t serial, const char *text) {
    struct thinc_error message = {.type = THINC_ERROR, .serial = serial};
    snprintf(message.text, sizeof message.text, "%s", text);
    LogMessageVerb(X_WARNING, 1, "thinc: error sent to the session: %s\n", text);
    send_message(fd, &message, sizeof message, NULL, 0);
}

static struct thinc_framebuffer framebuffer_message(void) {
    return (struct thinc_framebuffer){
        .type = THINC_FRAMEBUFFER,
        .generation = thinc.fb_generation,
        .width = thinc.fb_width,
        .height = thinc.fb_height,
        .stride_bytes = thinc.fb_stride,
        .bytes = thinc.fb_bytes,
    };
}

/* ---- attaching and detaching ----------------------------------------------------------------- */
static void drop(int fd) {
    RemoveNotifyFd(fd);
    close(fd);
}

static void detach(const char *why) {
    if (control.consumer < 0)
        return;
    LogMessageVerb(X_INFO, 1, "thinc: session detached: %s\n", why);
    drop(control.consumer);
    control.consumer = -1;
    ring_destroy();
    input_detach();
}

static void attach(int fd) {
    detach("another session attached");
    int input = -1;
    bool ok = ring_create() && (input = input_attach()) >= 0;
    if (ok) {
        struct thinc_hello hello = {
            .type = THINC_HELLO,
            .magic = THINC_ABI_MAGIC,
            .abi_version = THINC_ABI_VERSION,
            .ring_bytes = THINC_RING_BYTES,
            .framebuffer = framebuffer_message(),
        };
        /* The blocks are complete before the session can read them. */
        randr_publish(true);
        cursor_attach();
        int fds[HELLO_FDS] = {ring_memfd(), thinc.fb_fd, ring_eventfd(), input, slots_memfd()};
        ok = send_message(fd, &hello, sizeof hello, fds, HELLO_FDS);
    }
    if (input >= 0)
        close(input);
    if (!ok) {
        send_error(fd, 0, "the X server has no memory or file descriptors left for a session");
        ring_destroy();
        input_detach();
        drop(fd);
        return;
    }
    control.consumer = fd;
    LogMessageVerb(X_INFO, 1, "thinc: session attached\n");
}

void control_framebuffer(void) {
    if (control.consumer < 0)
        return;
    struct thinc_framebuffer message = framebuffer_message();
    if (!send_message(control.consumer, &message, sizeof message, &thinc.fb_fd, 1))
        /* Hundreds of messages are unread, or descriptors ran out: a session that works will attach
         * again. */
        detach("it does not accept the new framebuffer");
}

/* ---- receiving ------------------------------------------------------------------------------- */
union request {
    uint32_t type;
    struct thinc_attach attach;
    struct thinc_word word;
    struct thinc_set_outputs outputs;
};

static void serve_consumer(const union request *request, size_t bytes) {
    if (request->type == THINC_SEND_BARRIER && bytes == sizeof request->word) {
        screen_barrier(request->word.value);
    } else if (request->type == THINC_RESUME && bytes == sizeof request->word) {
        ring_resume();
    } else if (request->type == THINC_SET_OUTPUTS && bytes == sizeof request->outputs) {
        uint32_t serial = request->outputs.serial;
        const char *error = randr_apply(request->outputs.outputs, request->outputs.count);
        if (control.consumer < 0)
            return;
        if (error) {
            send_error(control.consumer, serial, error);
            return;
        }
        struct thinc_word done = {.type = THINC_OUTPUTS_APPLIED, .value = serial};
        if (!send_message(control.consumer, &done, sizeof done, NULL, 0))
            detach("it does not read its messages");
    } else {
        send_error(control.consumer, 0, "unknown kind or length of message");
        detach("it sent a message of unknown kind or length");
    }
}

static bool attach_is_valid(int fd, const union request *request, size_t bytes) {
    char text[sizeof((struct thinc_error *)0)->text];
    struct ucred peer;
    socklen_t length = sizeof peer;
    /* Only after the request was read: closing a socket with unread data would discard the error
     * message. */
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.uid != geteuid()) {
        send_error(fd, 0, "only the user who runs this X server may attach");
        return false;
    }
    if (bytes != sizeof request->attach || request->type != THINC_ATTACH ||
        request->attach.magic != THINC_ABI_MAGIC) {
        send_error(fd, 0,
                   "this is the socket of thinc's X driver: the first message must be ATTACH");
        return false;
    }
    if (request->attach.abi_version != THINC_ABI_VERSION ||
        request->attach.ring_bytes != THINC_RING_BYTES) {
        snprintf(text, sizeof text,
                 "the driver speaks version %u of the ring and the session version %u: install "
                 "both from one build of thinc",
                 THINC_ABI_VERSION, request->attach.abi_version);
        send_error(fd, 0, text);
        return false;
    }
    return true;
}

static int waiting_slot(int fd) {
    for (int i = 0; i < WAITING; i++)
        if (control.waiting[i] == fd)
            return i;
    return -1;
}

static void serve(int fd, int ready, void *closure) {
    union request request;
    memset(&request, 0, sizeof request);
    ssize_t bytes = recv(fd, &request, sizeof request, MSG_DONTWAIT);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    int slot = waiting_slot(fd);
    if (slot >= 0)
        control.waiting[slot] = -1;
    if (bytes < (ssize_t)sizeof(struct thinc_word)) {
        if (fd == control.consumer)
            detach(bytes == 0  ? "it closed the socket"
                   : bytes < 0 ? strerror(errno)
                               : "it sent a short message");
        else
            drop(fd);
        return;
    }
    if (fd == control.consumer)
        serve_consumer(&request, (size_t)bytes);
    else if (attach_is_valid(fd, &request, (size_t)bytes))
        attach(fd);
    else
        drop(fd);
}

static void accept_one(int listening, int ready, void *closure) {
    int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    int slot = waiting_slot(-1);
    if (slot < 0 || !SetNotifyFd(fd, serve, X_NOTIFY_READ, NULL)) {
        send_error(fd, 0, "too many sessions are waiting to attach");
        close(fd);
        return;
    }
    control.waiting[slot] = fd;
}

/* ---- listening ------------------------------------------------------------------------------- */
/* True if another server answers there: then the socket is not ours to remove. */
static bool in_use(const struct sockaddr_un *address) {
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool answered =
        fd >= 0 &&
        (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 || errno == EAGAIN);
    if (fd >= 0)
        close(fd);
    return answered;
}

bool control_listen(const char *path) {
    if (control.listening >= 0)
        return true;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        LogMessageVerb(X_ERROR, 0, "thinc: Option \"Socket\" \"%s\" is longer than %zu bytes\n",
                       path, sizeof address.sun_path - 1);
        return false;
    }
    strcpy(address.sun_path, path);
    struct stat there;
    if (lstat(path, &there) == 0 && S_ISSOCK(there.st_mode)) {
        if (in_use(&address)) {
            LogMessageVerb(X_ERROR, 0, "thinc: another X server listens on %s\n", path);
            return false;
        }
        unlink(path);
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t mask = umask(0177);
    bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
              listen(fd, WAITING) == 0;
    int error = errno;
    umask(mask);
    if (!ok || !SetNotifyFd(fd, accept_one, X_NOTIFY_READ, NULL)) {
        LogMessageVerb(X_ERROR, 0, "thinc: cannot listen on %s: %s\n", path,
                       ok ? "out of memory" : strerror(error));
        if (fd >= 0)
            close(fd);
        return false;
    }
    control.listening = fd;
    strcpy(control.path, path);
    return true;
}

void control_close(void) {
    detach("the X server terminates");
    for (int i = 0; i < WAITING; i++) {
        if (control.waiting[i] >= 0)
            drop(control.waiting[i]);
        control.waiting[i] = -1;
    }
    if (control.listening < 0)
        return;
    drop(control.listening);
    control.listening = -1;
    unlink(control.path);
}
