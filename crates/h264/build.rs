//! Builds x264.c, which x264.rs calls, and links the system's libx264, if that feature is enabled.
//! Beside the path. Knows pkg-config and a C compiler.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "x264")]
    {
        println!("cargo::rerun-if-changed=src/encoder/x264.c");
        // 0.160: the first version with x264_param_cleanup.
        let library = pkg_config::Config::new().atleast_version("0.160").probe("x264");
        let library =
            library.unwrap_or_else(|error| panic!("the feature x264 wants libx264-dev: {error}"));
        let mut shim = cc::Build::new();
        shim.file("src/encoder/x264.c")
            .std("c11")
            .warnings_into_errors(true)
            .includes(&library.include_paths);
        shim.compile("thinc_x264");
    }
}
