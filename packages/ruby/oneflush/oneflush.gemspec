# frozen_string_literal: true

# Read by packages/ruby/build in a folder that has the files of one platform.
require_relative "lib/oneflush/built"

Gem::Specification.new do |gem|
  gem.name = "oneflush"
  gem.version = Oneflush::VERSION
  gem.summary = "Durable SQLite commits for one aligned write and one flush"
  gem.description = "A SQLite extension with the program oneflush, for the SQLite you already use"
  gem.authors = ["The Oneflush contributors"]
  gem.licenses = ["MIT", "Apache-2.0"]
  gem.files = Dir.glob("{lib,exe,sig}/**/*").select { |path| File.file?(path) }.sort +
              %w[.yardopts LICENSE-APACHE LICENSE-MIT README.md]
  gem.bindir = "exe"
  gem.executables = ["oneflush"]
  gem.required_ruby_version = ">= 3.0"
  gem.add_runtime_dependency "sqlite3", ">= 1.4"
  gem.metadata = { "rubygems_mfa_required" => "true" }

  # A platform with its C library is known to RubyGems 3.3.22 and newer. An older one, as of Debian
  # 12 and Ubuntu 22.04, finds no "-gnu", and would take "-musl" with glibc. The gem with neither is
  # for the older ones, and for glibc. A newer one would take it with musl, too.
  name = ENV.fetch("GEM_PLATFORM")
  gem.platform = Gem::Platform.new(name.split("-"))
  gem.required_rubygems_version = name.count("-") == 2 ? ">= 3.3.22" : "< 3.3.22"
end
