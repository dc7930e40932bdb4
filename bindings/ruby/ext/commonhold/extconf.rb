# frozen_string_literal: true

# Finds the installed C library: where --with-commonhold-dir=PREFIX says, else as pkg-config does.
require "mkmf"

include_dir, lib_dir = dir_config("commonhold")
found = include_dir ? have_library("commonhold", "ch_version", "commonhold.h") : pkg_config("commonhold")
unless found && have_header("commonhold.h") && have_func("ch_version", "commonhold.h")
  abort "libcommonhold is not installed, or not found: make -C bindings/c install PREFIX=...; " \
        "then set PKG_CONFIG_PATH=PREFIX/lib/pkgconfig, or gem install ... -- --with-commonhold-dir=PREFIX"
end

# The library is found again when the extension is loaded, also below a prefix that the system does
# not search. A precompiled gem contains the library, next to the extension.
lib_dir ||= pkg_config("commonhold", "variable=libdir")
lib_dir = "'$$ORIGIN'" if enable_config("bundled-library", false)
$LDFLAGS << " -Wl,-rpath,#{lib_dir}" unless lib_dir.to_s.empty? # rubocop:disable Style/GlobalVars
append_cflags(%w[-std=gnu11 -Wall -Wextra -Wno-unused-parameter -fvisibility=hidden])
create_makefile("commonhold/commonhold_ext")
