//! Where the system's GStreamer has its plugins: the program loads only those that it uses.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let plugins = pkg_config::get_variable("gstreamer-1.0", "pluginsdir");
    println!("cargo::rustc-env=GSTREAMER_PLUGINS={}", plugins.unwrap_or_default());
}
