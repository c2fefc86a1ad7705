#!/bin/sh
# Makes web/dist, the files that a session serves to browsers, from this folder and the compiled
# viewer.
# Usage: web/build.sh [VIEWER.WASM SOUND.WASM]   without arguments, web/dist has both already.
# Needs esbuild (Debian's will do) and nothing else: no package is fetched.
set -eu
cd "$(dirname "$0")"

mkdir -p dist
if [ $# -gt 0 ]; then
    cp -- "$1" dist/viewer.wasm
    cp -- "$2" dist/sound.wasm
fi
if [ ! -s dist/viewer.wasm ] || [ ! -s dist/sound.wasm ]; then
    echo "web/build.sh: no dist/viewer.wasm or sound.wasm; name both as arguments" >&2
    exit 1
fi
# The output runs in browsers of 2022 and later (Chromium 105, Firefox 105, Safari 16.4).
esbuild main.ts worker.ts login.ts account.ts monitor.ts worklet=sound/worklet.ts --bundle \
    --minify --format=iife --target=es2022 --outdir=dist --log-level=warning
cp index.html login.html account.html monitor.html ui/style.css ui/monitor.css app/* dist/
# The same viewer for a desktop behind the broker, which has a login instead of links, and can be
# installed as an application.
icon='<link rel="icon" href="/icon-192.png">'
manifest='<link rel="manifest" href="/app.webmanifest">'
sed -e 's/<html lang="en">/<html lang="en" data-broker>/' \
    -e "s|<link rel=\"icon\" href=\"data:,\">|$icon$manifest|" \
    index.html >dist/desk.html
