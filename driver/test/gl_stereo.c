/* An OpenGL program that draws for two eyes, as programs under VirtualGL do: one colour for each
 * eye, and a triangle at another place. tests/tests/stereo.rs tells it what to draw.
 *   gl_stereo X Y WIDTH HEIGHT      opens a window there; a line of its standard input is
 *   LEFT RIGHT                      the colours of the next frame, 0xRRGGBB in decimal
 * It answers "ok" once a frame was swapped, and exits with 3 if there is no stereo visual. */
#include <stdio.h>
#include <stdlib.h>

#include <GL/gl.h>
#include <GL/glx.h>
#include <X11/Xlib.h>

static void draw(GLenum buffer, unsigned color, float at) {
    glDrawBuffer(buffer);
    glClearColor((float)(color >> 16 & 255) / 255, (float)(color >> 8 & 255) / 255,
                 (float)(color & 255) / 255, 1);
    glClear(GL_COLOR_BUFFER_BIT);
    glBegin(GL_TRIANGLES);
    glColor3f(1, 1, 1);
    glVertex2f(at, -0.2f);
    glVertex2f(at + 0.4f, -0.2f);
    glVertex2f(at + 0.2f, 0.4f);
    glEnd();
}

int main(int argc, char **argv) {
    Display *display = argc == 5 ? XOpenDisplay(NULL) : NULL;
    if (!display)
        return 1;
    int wanted[] = {GLX_RGBA, GLX_DOUBLEBUFFER, GLX_STEREO, GLX_RED_SIZE, 8, GLX_GREEN_SIZE,
                    8,        GLX_BLUE_SIZE,    8,          None};
    XVisualInfo *visual = glXChooseVisual(display, DefaultScreen(display), wanted);
    if (!visual)
        return 3;
    Window root = RootWindow(display, visual->screen);
    XSetWindowAttributes attributes = {
        .override_redirect = True,
        .event_mask = ExposureMask,
        .colormap = XCreateColormap(display, root, visual->visual, AllocNone),
    };
    Window window =
        XCreateWindow(display, root, atoi(argv[1]), atoi(argv[2]), (unsigned)atoi(argv[3]),
                      (unsigned)atoi(argv[4]), 0, visual->depth, InputOutput, visual->visual,
                      CWOverrideRedirect | CWEventMask | CWColormap | CWBorderPixel, &attributes);
    XMapRaised(display, window);
    XEvent event;
    XWindowEvent(display, window, ExposureMask, &event);
    GLXContext context = glXCreateContext(display, visual, NULL, True);
    if (!context || !glXMakeCurrent(display, window, context))
        return 1;
    glViewport(0, 0, atoi(argv[3]), atoi(argv[4]));
    puts("ok");
    unsigned left = 0, right = 0;
    while (fflush(stdout) == 0 && scanf("%u %u", &left, &right) == 2) {
        draw(GL_BACK_LEFT, left, -0.5f);
        draw(GL_BACK_RIGHT, right, 0.1f);
        glXSwapBuffers(display, window);
        puts("ok");
    }
    return 0;
}
