# The menu of GNOME's Files (Nautilus), where nautilus-python is installed.
import os
import subprocess

from gi.repository import GObject, Nautilus


class SendToMyComputer(GObject.GObject, Nautilus.MenuProvider):
    # Version 3 also passes the window.
    def get_file_items(self, *arguments):
        paths = [file.get_location().get_path() for file in arguments[-1]]
        # Only in a session of thinc.
        if "THINC_SHARE_SOCKET" not in os.environ or not paths or None in paths:
            return []
        item = Nautilus.MenuItem(
            name="ThincSend::send",
            label="Send to My Computer",
            tip="Send to the computer that shows this session",
        )
        command = ["thinc", "send", "--notify", "--", *paths]
        item.connect("activate", lambda _: subprocess.Popen(command))
        return [item]
