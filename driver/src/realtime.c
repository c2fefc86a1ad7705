/* Beside the path: in thinc's broker root may make X's input thread real-time, and has the kernel
 * send SIGXCPU when it runs for too long without a pause (RLIMIT_RTTIME), upon which X would end.
 * Here the thread becomes ordinary instead. Knows numbers of threads; never who made them so. */
#include "thinc.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* By this name root finds the thread: X's own name for it would be there without this handler. */
#define INPUT_THREAD "thinc-input"

/* 100 ms of a real-time thread without a pause, in microseconds, until the signal comes, and 2 s
 * until the kernel kills X: as the broker sets them too, where it may. */
static const struct rlimit longest_run = {.rlim_cur = 100000, .rlim_max = 2000000};

/* The input thread; 0 until it has read something. Written by it, read by the handler. */
static volatile pid_t input_thread;

/* Any thread may run this, also in the middle of anything: system calls, and nothing else. What
 * was real-time starts nothing real-time, and must not lose that without being root. */
static void handle_long_run(int number) {
    int kept = errno;
    const struct sched_param ordinary = {.sched_priority = 0};
    pid_t threads[2] = {getpid(), input_thread};
    for (int i = 0; i < 2; i++)
        if (threads[i])
            sched_setscheduler(threads[i], SCHED_OTHER | SCHED_RESET_ON_FORK, &ordinary);
    /* The kernel has made it longer. */
    setrlimit(RLIMIT_RTTIME, &longest_run);
    errno = kept;
}

void realtime_init(void) {
    struct sigaction action = {.sa_handler = handle_long_run, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGXCPU, &action, NULL) != 0 || setrlimit(RLIMIT_RTTIME, &longest_run) != 0)
        LogMessageVerb(X_WARNING, 0, "thinc: long runs of real-time threads: %s\n",
                       strerror(errno));
}

void realtime_name_input_thread(void) {
    /* X may start another thread in place of one that it has stopped. */
    static __thread bool is_named;
    if (is_named)
        return;
    is_named = true;
    /* Where X reads input in its main thread, that one draws too: it keeps its name, and its
     * policy. */
    if (gettid() == getpid())
        return;
    input_thread = gettid();
    pthread_setname_np(pthread_self(), INPUT_THREAD);
}
