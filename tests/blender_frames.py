# Turns the 3D view of Blender without end, a lit head in it, until it gets SIGUSR1.
# Beside the path: run inside Blender, an application of tests/tests/gl_toolkits.rs.
# Writes into the file that it is told, a line each: what draws it, and where its text is, in pixels
# of its window from the left upper corner.
import math
import os
import signal
import sys

import bpy
import gpu
from mathutils import Quaternion

told = open(sys.argv[sys.argv.index("--") + 1], "w", buffering=1)

# Areas of the default screen, and their regions, which hold text and do not change.
TEXT = {
    "TOPBAR": ("HEADER",),
    "VIEW_3D": ("HEADER",),
    "OUTLINER": ("HEADER", "WINDOW"),
    "PROPERTIES": ("HEADER", "NAVIGATION_BAR", "WINDOW"),
}
# The view is shown once it has been drawn so often.
FRAMES_MIN = 20

moves = True
frame = 0


def rest(*_):
    global moves
    moves = False
    told.write("rests\n")


def scene():
    # Software draws it.
    bpy.context.preferences.system.viewport_aa = "OFF"
    for area in bpy.context.window_manager.windows[0].screen.areas:
        if area.type == "VIEW_3D":
            space = area.spaces.active
            space.overlay.show_floor = False
            space.overlay.show_axis_x = space.overlay.show_axis_y = False
            space.region_3d.view_distance = 6
    bpy.ops.object.select_all(action="SELECT")
    bpy.ops.object.delete()
    bpy.ops.mesh.primitive_monkey_add(size=3)
    bpy.ops.object.shade_smooth()
    bpy.context.object.modifiers.new("Subdivision", "SUBSURF").levels = 1


def tell_places(window):
    def tell(kind, name, region):
        top = window.height - region.y - region.height
        told.write(f"{kind} {name} {region.x} {top} {region.width} {region.height}\n")

    shown = [
        (area.type, region)
        for area in window.screen.areas
        for region in area.regions
        if region.width > 1 and region.height > 1
    ]
    for area, region in shown:
        if (area, region.type) == ("VIEW_3D", "WINDOW"):
            tell("scene", "view", region)
    for area, region in shown:
        if region.type in TEXT.get(area, ()):
            tell("text", f"{area}.{region.type}".lower(), region)
    told.write("shown\n")


def turn():
    global frame
    window = bpy.context.window_manager.windows[0]
    for area in window.screen.areas:
        if area.type == "VIEW_3D" and moves:
            view = area.spaces.active.region_3d
            angle = frame * 0.04
            tilt = Quaternion((1, 0, 0), 1.1 + 0.2 * math.sin(angle))
            view.view_rotation = Quaternion((0, 0, 1), angle) @ tilt
            area.tag_redraw()
    frame += 1
    if frame == FRAMES_MIN:
        told.write(f"renderer {gpu.platform.renderer_get()}\npid {os.getpid()}\n")
        tell_places(window)
    return 1 / 60


bpy.context.preferences.view.show_splash = False
signal.signal(signal.SIGUSR1, rest)
scene()
bpy.app.timers.register(turn, first_interval=0.1)
