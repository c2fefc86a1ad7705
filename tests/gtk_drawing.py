# A drawing program of GTK 3: it writes what GDK says of the devices, and of each event of a pen,
# into the file that it is told, a line each.
import sys

import gi

gi.require_version("Gdk", "3.0")
gi.require_version("Gtk", "3.0")
from gi.repository import Gdk, Gtk  # noqa: E402

told = open(sys.argv[1], "w", buffering=1)


def name(value):
    return value.value_nick


def axes_of(event):
    def axis(use):
        value = event.get_axis(use)
        return float("nan") if value is None else value

    uses = (Gdk.AxisUse.PRESSURE, Gdk.AxisUse.XTILT, Gdk.AxisUse.YTILT)
    return " ".join(f"{axis(use):.3f}" for use in uses)


def handle(widget, event):
    device = event.get_source_device()
    kind = {
        Gdk.EventType.MOTION_NOTIFY: "motion",
        Gdk.EventType.BUTTON_PRESS: "press",
        Gdk.EventType.BUTTON_RELEASE: "release",
    }[event.type]
    tool = event.get_device_tool()
    tool = name(tool.get_tool_type()) if tool else "none"
    words = [kind, name(device.get_source()), tool, f"{event.x:.3f} {event.y:.3f}", axes_of(event)]
    told.write(" ".join(words) + "\n")
    return True


window = Gtk.Window(type=Gtk.WindowType.POPUP)
window.move(100, 50)
window.set_default_size(400, 300)
window.add_events(
    Gdk.EventMask.POINTER_MOTION_MASK
    | Gdk.EventMask.BUTTON_PRESS_MASK
    | Gdk.EventMask.BUTTON_RELEASE_MASK
)
for signal in ("motion-notify-event", "button-press-event", "button-release-event"):
    window.connect(signal, handle)
window.connect("map-event", lambda *_: told.write("shown\n"))
# Every motion, as drawing programs want it.
window.connect("realize", lambda *_: window.get_window().set_event_compression(False))
for device in window.get_display().get_default_seat().get_slaves(Gdk.SeatCapabilities.ALL):
    told.write(f"device {name(device.get_source())} {device.get_name()}\n")
window.show()
Gtk.main()
