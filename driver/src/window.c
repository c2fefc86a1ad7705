/* Path 1/13: from window moves, to op.c.
 * CopyWindow becomes a COPY of what was visible before and still is. SetWindowPixmap is not
 * wrapped: op.c looks up a window's pixmap for every op, so a redirection needs no notice. */
#include "thinc.h"

static CopyWindowProcPtr wrapped_CopyWindow;

uint32_t window_top_level(WindowPtr window) {
    while (window->parent && window->parent->parent)
        window = window->parent;
    return (uint32_t)window->drawable.id;
}

static struct op *begin_move(struct op *op, WindowPtr window, DDXPointRec old, RegionPtr source) {
    int dx = window->drawable.x - old.x, dy = window->drawable.y - old.y;
    int count = RegionNumRects(source);
    const BoxRec *rects = RegionRects(source);
    for (int i = 0; i < count; i++) {
        struct box to = {rects[i].x1 + dx, rects[i].y1 + dy, rects[i].x2 + dx, rects[i].y2 + dy};
        boxes_add_clipped(&op->copied, &to, &window->borderClip);
    }
    /* After the screen shrank, formerly visible pixels may lie outside. */
    int width = op->pixmap->drawable.width, height = op->pixmap->drawable.height;
    bool inside = true;
    for (int i = 0; i < op->copied.count; i++) {
        const struct box *b = &op->copied.box[i];
        inside = inside && b->x1 - dx + op->off_x >= 0 && b->y1 - dy + op->off_y >= 0 &&
                 b->x2 - dx + op->off_x <= width && b->y2 - dy + op->off_y <= height;
    }
    if (op->copied.coarse || !inside) {
        op->drawn = op->copied;
        op->copied.count = 0;
        return op_begin_clipped(op);
    }
    op->src = op->dst;
    op->dx = dx;
    op->dy = dy;
    return op_begin_clipped(op);
}

static void copy_window(WindowPtr window, DDXPointRec old, RegionPtr source) {
    ScreenPtr screen = window->drawable.pScreen;
    struct op *op = op_open(&window->drawable);
    if (op)
        op = begin_move(op, window, old, source);
    screen->CopyWindow = wrapped_CopyWindow;
    thinc.nesting++;
    screen->CopyWindow(window, old, source);
    thinc.nesting--;
    screen->CopyWindow = copy_window;
    if (op)
        op_publish(op);
}

bool window_init(ScreenPtr screen) {
    wrapped_CopyWindow = screen->CopyWindow;
    screen->CopyWindow = copy_window;
    return true;
}

void window_close(ScreenPtr screen) { screen->CopyWindow = wrapped_CopyWindow; }
