# frozen_string_literal: true

require_relative "lib/commonhold/version"

Gem::Specification.new do |spec|
  spec.name = "commonhold"
  spec.version = Commonhold::VERSION
  spec.summary = "Maps, queues, channels and logs in memory that processes share"
  spec.description = "A hold is a memory-mapped file that many processes share, without a server. " \
                     "The gem includes a cache store for Rails, and a LocalMemCache for users of Localmemcache."
  spec.authors = ["The Commonhold developers"]
  spec.licenses = %w[MIT Apache-2.0]
  spec.required_ruby_version = ">= 3.0"
  spec.files = Dir.chdir(__dir__) { Dir["{lib,compat,examples}/**/*.rb", "ext/**/*.{rb,c,h}", "README.md", ".yardopts"] }
  spec.extensions = ["ext/commonhold/extconf.rb"]
  # ./package has compiled the extension for this platform and this series of Ruby.
  if ENV["GEM_PRECOMPILED"]
    spec.platform = [Gem::Platform.local.cpu, Gem::Platform.local.os].join("-")
    spec.files += %w[lib/commonhold/commonhold_ext.so lib/commonhold/libcommonhold.so.0]
    spec.extensions = []
    major, minor = RUBY_VERSION.split(".").map(&:to_i)
    spec.required_ruby_version = [">= #{major}.#{minor}.0", "< #{major}.#{minor + 1}.dev"]
  end
  spec.require_paths = %w[lib compat]
  spec.metadata = { "rubygems_mfa_required" => "true" }
end
