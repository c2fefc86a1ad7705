/* A program that draws by OpenGL and says what it has drawn, so that a test can compare that with
 * what X shows: crates/ring/tests/dri3.rs tells it what to do, one line each, on standard input.
 *   make -C driver test/gl && driver/build/gl
 * Pixels are written as 32 bits, blue first, rows as OpenGL has them. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <GL/gl.h>
#include <GL/glx.h>
#include <GL/glxext.h>
#include <X11/Xlib.h>
#include <X11/Xutil.h>

static Display *display;
static GLXContext context;

/* The newest window, whose frames are asked for. */
static struct {
    Window id;
    GLXWindow surface;
    unsigned width, height;
} window;

/* The pixmap that is a texture. */
static struct {
    GLXPixmap surface;
    GLuint texture;
    unsigned width, height;
} pixmap;

__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("gl: ", stderr);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputs("\n", stderr);
    exit(1);
}

static void write_pixels(const void *pixels, unsigned width, unsigned height) {
    if (fwrite(pixels, 4, (size_t)width * height, stdout) != (size_t)width * height)
        fail("nobody reads");
    fflush(stdout);
}

/* The first configuration of this depth. */
static GLXFBConfig configuration(const int *wanted, int depth) {
    int count = 0;
    GLXFBConfig *all = glXChooseFBConfig(display, DefaultScreen(display), wanted, &count);
    for (int i = 0; i < count; i++) {
        XVisualInfo *visual = glXGetVisualFromFBConfig(display, all[i]);
        if (visual && visual->depth == depth)
            return all[i];
    }
    fail("GLX has no configuration for depth %d", depth);
}

static GLXFBConfig window_configuration(void) {
    static const int wanted[] = {
        GLX_DRAWABLE_TYPE,
        GLX_WINDOW_BIT,
        GLX_RENDER_TYPE,
        GLX_RGBA_BIT,
        GLX_DOUBLEBUFFER,
        True,
        GLX_RED_SIZE,
        8,
        GLX_GREEN_SIZE,
        8,
        GLX_BLUE_SIZE,
        8,
        None,
    };
    return configuration(wanted, 24);
}

static void make_window(unsigned width, unsigned height) {
    GLXFBConfig config = window_configuration();
    XVisualInfo *visual = glXGetVisualFromFBConfig(display, config);
    Window root = DefaultRootWindow(display);
    XSetWindowAttributes attributes = {
        .override_redirect = True,
        .event_mask = StructureNotifyMask,
        .colormap = XCreateColormap(display, root, visual->visual, AllocNone),
    };
    window.width = width;
    window.height = height;
    window.id =
        XCreateWindow(display, root, 0, 0, width, height, 0, visual->depth, InputOutput,
                      visual->visual, CWOverrideRedirect | CWEventMask | CWColormap, &attributes);
    XMapWindow(display, window.id);
    XEvent event;
    do
        XNextEvent(display, &event);
    while (event.type != MapNotify);
    window.surface = glXCreateWindow(display, config, window.id, NULL);
    if (!context)
        context = glXCreateNewContext(display, config, GLX_RGBA_TYPE, NULL, True);
    if (!context || !glXMakeContextCurrent(display, window.surface, window.surface, context))
        fail("there is no context");
}

static void resize_window(unsigned width, unsigned height) {
    window.width = width;
    window.height = height;
    XResizeWindow(display, window.id, width, height);
    XSync(display, False);
}

static uint32_t next(uint32_t *seed) { return (*seed = *seed * 1664525 + 1013904223) >> 8; }

/* Rectangles of random colours, and a triangle with all colours between three. */
static void draw(uint32_t seed) {
    glViewport(0, 0, (GLsizei)window.width, (GLsizei)window.height);
    glEnable(GL_SCISSOR_TEST);
    for (int i = 0; i < 40; i++) {
        GLint x = (GLint)(next(&seed) % window.width), y = (GLint)(next(&seed) % window.height);
        if (i == 0)
            glScissor(0, 0, (GLsizei)window.width, (GLsizei)window.height);
        else
            glScissor(x, y, (GLsizei)(next(&seed) % 200 + 1), (GLsizei)(next(&seed) % 200 + 1));
        uint32_t color = next(&seed);
        glClearColor((float)(color & 255) / 255, (float)(color >> 8 & 255) / 255,
                     (float)(color >> 16 & 255) / 255, 1);
        glClear(GL_COLOR_BUFFER_BIT);
    }
    glDisable(GL_SCISSOR_TEST);
    glBegin(GL_TRIANGLES);
    for (int i = 0; i < 3; i++) {
        glColor3f(i == 0, i == 1, i == 2);
        glVertex2f((float)(next(&seed) % 2000) / 1000 - 1, (float)(next(&seed) % 2000) / 1000 - 1);
    }
    glEnd();
}

/* Reads the frame before it is shown. */
static void show_frame(uint32_t seed, int is_read) {
    draw(seed);
    if (is_read) {
        void *pixels = malloc((size_t)window.width * window.height * 4);
        if (!pixels)
            fail("no memory");
        glReadPixels(0, 0, (GLsizei)window.width, (GLsizei)window.height, GL_BGRA, GL_UNSIGNED_BYTE,
                     pixels);
        glXSwapBuffers(display, window.surface);
        XFlush(display);
        write_pixels(pixels, window.width, window.height);
        free(pixels);
    } else {
        glXSwapBuffers(display, window.surface);
    }
    if (glGetError() != GL_NO_ERROR)
        fail("OpenGL reports an error");
}

static GLXPixmap make_pixmap(Pixmap id, int depth) {
    const int wanted[] = {
        GLX_DRAWABLE_TYPE,
        GLX_PIXMAP_BIT,
        depth == 32 ? GLX_BIND_TO_TEXTURE_RGBA_EXT : GLX_BIND_TO_TEXTURE_RGB_EXT,
        True,
        None,
    };
    const int attributes[] = {
        GLX_TEXTURE_TARGET_EXT,
        GLX_TEXTURE_2D_EXT,
        GLX_TEXTURE_FORMAT_EXT,
        depth == 32 ? GLX_TEXTURE_FORMAT_RGBA_EXT : GLX_TEXTURE_FORMAT_RGB_EXT,
        None,
    };
    return glXCreatePixmap(display, configuration(wanted, depth), id, attributes);
}

/* As compositors do with the pixmaps of windows. */
static void bind_pixmap(Pixmap id, int depth, unsigned width, unsigned height) {
    pixmap.surface = make_pixmap(id, depth);
    pixmap.width = width;
    pixmap.height = height;
    glGenTextures(1, &pixmap.texture);
}

static void read_texture(void) {
    static PFNGLXBINDTEXIMAGEEXTPROC bind;
    static PFNGLXRELEASETEXIMAGEEXTPROC release;
    if (!bind) {
        bind = (PFNGLXBINDTEXIMAGEEXTPROC)glXGetProcAddress((const GLubyte *)"glXBindTexImageEXT");
        release = (PFNGLXRELEASETEXIMAGEEXTPROC)glXGetProcAddress(
            (const GLubyte *)"glXReleaseTexImageEXT");
    }
    glBindTexture(GL_TEXTURE_2D, pixmap.texture);
    bind(display, pixmap.surface, GLX_FRONT_LEFT_EXT, NULL);
    GLint width = 0, height = 0;
    glGetTexLevelParameteriv(GL_TEXTURE_2D, 0, GL_TEXTURE_WIDTH, &width);
    glGetTexLevelParameteriv(GL_TEXTURE_2D, 0, GL_TEXTURE_HEIGHT, &height);
    if (width != (GLint)pixmap.width || height != (GLint)pixmap.height)
        fail("the texture has %dx%d pixels", width, height);
    void *pixels = calloc((size_t)width * (size_t)height, 4);
    if (!pixels)
        fail("no memory");
    glGetTexImage(GL_TEXTURE_2D, 0, GL_BGRA, GL_UNSIGNED_BYTE, pixels);
    release(display, pixmap.surface, GLX_FRONT_LEFT_EXT);
    write_pixels(pixels, pixmap.width, pixmap.height);
    free(pixels);
}

/* Draws into a pixmap of X, in one colour. */
static void paint_pixmap(Pixmap id, int depth, uint32_t color) {
    GLXPixmap surface = make_pixmap(id, depth);
    if (!glXMakeContextCurrent(display, surface, surface, context))
        fail("a pixmap cannot be drawn on");
    glDrawBuffer(GL_FRONT);
    glClearColor((float)(color >> 16 & 255) / 255, (float)(color >> 8 & 255) / 255,
                 (float)(color & 255) / 255, 1);
    glClear(GL_COLOR_BUFFER_BIT);
    glFinish();
    glXMakeContextCurrent(display, window.surface, window.surface, context);
    glXDestroyPixmap(display, surface);
    XSync(display, False);
    puts("painted");
    fflush(stdout);
}

int main(void) {
    char line[256];
    unsigned long id;
    unsigned width, height, seed, count;
    int depth;
    display = XOpenDisplay(NULL);
    if (!display)
        fail("there is no display");
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "window %u %u", &width, &height) == 2) {
            make_window(width, height);
            printf("%lu %s\n", window.id, glGetString(GL_RENDERER));
        } else if (sscanf(line, "resize %u %u", &width, &height) == 2) {
            resize_window(width, height);
            puts("resized");
        } else if (sscanf(line, "frame %u", &seed) == 1) {
            show_frame(seed, 1);
        } else if (sscanf(line, "frames %u", &count) == 1) {
            for (seed = 0; seed < count; seed++)
                show_frame(seed, 0);
            puts("shown");
        } else if (sscanf(line, "pixmap %lu %d %u %u", &id, &depth, &width, &height) == 4) {
            bind_pixmap(id, depth, width, height);
            puts("bound");
        } else if (strcmp(line, "texture\n") == 0) {
            read_texture();
        } else if (sscanf(line, "paint %lu %d %u", &id, &depth, &seed) == 3) {
            paint_pixmap(id, depth, seed);
        } else {
            fail("what is %s", line);
        }
        fflush(stdout);
    }
    return 0;
}
