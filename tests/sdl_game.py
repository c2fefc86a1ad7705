# A program of SDL 2's that writes each event into the file that it is told, a line each.
# Beside the path: an application of tests/tests/relative.rs.
# The key R switches the relative mode. Numbers and offsets are those of SDL 2's headers.

import ctypes, os, struct, sys

# SDL keeps a press to itself that comes within 10 ms after the focus.
os.environ["SDL_MOUSE_FOCUS_CLICKTHROUGH"] = "1"
sdl = ctypes.CDLL("libSDL2-2.0.so.0")
sdl.SDL_CreateWindow.restype = ctypes.c_void_p
out = open(sys.argv[1], "w", buffering=1)
# Resizable, so that the session's window manager makes it as large as the screen.
assert sdl.SDL_Init(0x20) == 0 and sdl.SDL_CreateWindow(b"game", 50, 50, 300, 200, 0x20)
event = ctypes.create_string_buffer(128)
relative = False
while sdl.SDL_WaitEvent(event):
    (kind,) = struct.unpack_from("I", event)
    if kind == 0x200 and event.raw[12] == 12:
        print("focused", file=out)
    elif kind == 0x400:
        dx, dy = struct.unpack_from("ii", event, 28)
        print("moved", dx, dy, file=out)
    elif kind in (0x401, 0x402):
        print("pressed" if kind == 0x401 else "released", event.raw[16], file=out)
    elif kind == 0x300:
        (key,) = struct.unpack_from("i", event, 20)
        print("key", key, file=out)
        if key != ord("r"):
            continue
        relative = not relative
        assert sdl.SDL_SetRelativeMouseMode(relative) == 0
        print("relative" if relative else "absolute", file=out)
