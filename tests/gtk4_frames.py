# A program of GTK 4 that draws its window by OpenGL: small text, a list, a menu and an entry, and
# beside them a scene that moves without end, but for the time from one F6 to the next.
# Beside the path: an application of tests/tests/gl_toolkits.rs.
# Writes into the file that it is told, a line each: what draws it, where its parts are, and what
# has happened, once GTK has drawn the frame that shows it.
import math
import os
import sys

import gi

os.environ.update(GDK_BACKEND="x11", GSK_RENDERER="gl", GTK_A11Y="none", GTK_THEME="Default")
for library, version in (("Graphene", "1.0"), ("Gdk", "4.0"), ("Gsk", "4.0"), ("Gtk", "4.0")):
    gi.require_version(library, version)
# X11's methods of surfaces are in a library of their own.
gi.require_version("GdkX11", "4.0")
from gi.repository import Gdk, GdkX11, Gio, GLib, Graphene, Gsk, Gtk  # noqa: E402, F401

told = open(sys.argv[1], "w", buffering=1)

CSS = b"""
* { font-family: "DejaVu Sans"; font-size: 8pt; transition: none; animation-duration: 1s; }
window { background: #f4f4f2; color: #202428; }
list row { padding: 1px 6px; min-height: 0; }
.plaque { background: #fdf6d8; color: #30302a; border: 1px solid #8a8870; padding: 3px 6px; }
.note { padding: 16px; }
.caption { color: #ffffff; font-size: 13pt; font-weight: bold; }
popover contents { background: #ffffff; color: #101010; padding: 2px; border-radius: 0; }
"""


PARTS = ("title", "heading", "field", "list", "plaque", "note", "caption", "status")


class Scene(Gtk.Widget):
    """Lit balls that go round on a ground of one colour."""

    def __init__(self):
        super().__init__(hexpand=True, vexpand=True, overflow=Gtk.Overflow.HIDDEN)
        self.frame = 0

    def step(self):
        self.frame += 1
        self.queue_draw()

    def do_snapshot(self, snapshot):
        width, height = self.get_width(), self.get_height()
        ground = Graphene.Rect().init(0, 0, width, height)
        # A little different in each frame, so that all of the scene is drawn again.
        snapshot.append_color(color(f"#2f3a{0x4c + self.frame % 8:02x}"), ground)
        for ball in range(5):
            angle = self.frame * 0.05 + ball * 1.3
            radius = 26 + 5 * ball
            x = width / 2 + (width / 2 - 40) * math.cos(angle)
            y = height / 2 + (height / 2 - 40) * math.sin(angle * 1.1)
            bounds = Graphene.Rect().init(x - radius, y - radius, 2 * radius, 2 * radius)
            rounded = Gsk.RoundedRect()
            rounded.init_from_rect(bounds, radius)
            snapshot.push_rounded_clip(rounded)
            light = Graphene.Point().init(x - radius / 3, y - radius / 3)
            stops = [stop(0, "#ffe8c0"), stop(0.4, "#d08040"), stop(1, "#301808")]
            reach = radius * 1.4
            snapshot.append_radial_gradient(bounds, light, reach, reach, 0, 1, stops)
            snapshot.pop()


def color(text):
    parsed = Gdk.RGBA()
    parsed.parse(text)
    return parsed


def stop(offset, text):
    made = Gsk.ColorStop()
    made.offset, made.color = offset, color(text)
    return made


class Program:
    def __init__(self, app):
        provider = Gtk.CssProvider()
        provider.load_from_data(CSS)
        display = Gdk.Display.get_default()
        priority = Gtk.STYLE_PROVIDER_PRIORITY_USER
        Gtk.StyleContext.add_provider_for_display(display, provider, priority)
        Gtk.Settings.get_default().set_property("gtk-cursor-blink", False)
        self.moves, self.is_told = True, False
        self.news = []
        self.scene = Scene()
        self.window = Gtk.ApplicationWindow(application=app, decorated=False)
        self.window.set_default_size(600, 440)
        self.window.set_child(self.content())
        keys = Gtk.EventControllerKey(propagation_phase=Gtk.PropagationPhase.CAPTURE)
        keys.connect("key-pressed", self.key)
        self.window.add_controller(keys)
        self.window.connect("map", self.mapped)
        self.window.present()

    def content(self):
        self.menu = Gtk.Popover(has_arrow=False, position=Gtk.PositionType.BOTTOM)
        self.menu.set_child(lines("New sphere", "Duplicate", "Hide others", "Merge by distance"))
        self.menu.connect("map", self.menu_mapped)
        self.menu.connect("closed", lambda *_: self.tell("closed"))
        self.button = Gtk.MenuButton(popover=self.menu)
        self.title = Gtk.Label(label="Objects")
        self.button.set_child(self.title)
        self.entry = Gtk.Entry(hexpand=True)
        # Its text, without the border that shows the focus.
        self.field = self.entry.get_delegate()
        self.entry.connect("changed", self.typed)
        self.spinner = Gtk.Spinner(spinning=True)
        top = Gtk.Box(spacing=6)
        self.heading = Gtk.Label(label="Sphere.003, 1 920 faces, 61 frames", xalign=0)
        for widget in (self.heading, self.spinner, self.button, self.entry):
            top.append(widget)
        self.list = Gtk.ListBox(vexpand=True)
        for row in range(16):
            self.list.append(Gtk.Label(label=f"Object.{row:03} visible, lit, {row * 37}", xalign=0))
        self.plaque = label("fill 0.35  gamma 2.2\nil1I|O0 mmWW", Gtk.Align.START, "plaque")
        self.note = label("", Gtk.Align.END, "plaque", "note")
        self.note.set_width_chars(20)
        self.caption = label("PERSPECTIVE 50 mm", Gtk.Align.CENTER, "caption")
        self.caption.set_valign(Gtk.Align.END)
        over = Gtk.Overlay(child=self.scene)
        for widget in (self.plaque, self.note, self.caption):
            over.add_overlay(widget)
        middle = Gtk.Box(spacing=6, vexpand=True)
        middle.append(self.list)
        middle.append(over)
        self.status = Gtk.Label(label="x 1.250 m   y 0.375 m   z 12.000 m", xalign=0)
        box = Gtk.Box(orientation=Gtk.Orientation.VERTICAL, spacing=4)
        for widget in (top, middle, self.status):
            box.append(widget)
        return box

    def typed(self, entry):
        self.note.set_label(entry.get_text())
        self.tell(f"typed {entry.get_text()}")

    def tell(self, news):
        """After the next frame, which shows it; a function is called then."""
        self.news.append(news)
        self.window.queue_draw()

    def mapped(self, window):
        surface = window.get_surface()
        renderer = window.get_renderer()
        told.write(f"renderer {renderer.__gtype__.name}\n")
        told.write(f"window {surface.get_xid()}\n")
        clock = surface.get_frame_clock()
        clock.connect("after-paint", self.painted)
        self.scene.add_tick_callback(self.tick)

    def tick(self, *_):
        if self.moves:
            self.scene.step()
        return GLib.SOURCE_CONTINUE

    def painted(self, *_):
        if not self.is_told:
            self.is_told = True
            for name in PARTS:
                told.write(f"text {name} {place(getattr(self, name), self.window)}\n")
            told.write("shown\n")
        news, self.news = self.news, []
        for line in news:
            told.write((line() if callable(line) else line) + "\n")

    def menu_mapped(self, menu):
        def where():
            items = place(menu.get_child(), menu, menu.get_surface_transform())
            return f"menu {menu.get_surface().get_xid()} items {items}"

        self.tell(where)

    def key(self, _controller, key, *_):
        if key == Gdk.KEY_F6:
            self.moves = not self.moves
            self.spinner.set_spinning(self.moves)
            self.tell("moves" if self.moves else "rests")
            return True
        return False


def place(widget, inside, offset=(0, 0)):
    """In pixels of the window."""
    _, bounds = widget.compute_bounds(inside)
    (left, top), corner, size = offset, bounds.origin, bounds.size
    return f"{left + corner.x:.0f} {top + corner.y:.0f} {size.width:.0f} {size.height:.0f}"


def label(text, side, *classes):
    """In front of the scene."""
    made = Gtk.Label(label=text, xalign=0, halign=side, valign=Gtk.Align.CENTER)
    made.set_margin_start(37)
    for name in classes:
        made.add_css_class(name)
    return made


def lines(*texts):
    box = Gtk.Box(orientation=Gtk.Orientation.VERTICAL)
    for text in texts:
        box.append(Gtk.Label(label=text, xalign=0))
    return box


app = Gtk.Application(flags=Gio.ApplicationFlags.NON_UNIQUE)
app.connect("activate", Program)
app.run()
