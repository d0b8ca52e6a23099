# frozen_string_literal: true

require "rbconfig"

module Oneflush
  # Where the files of the gem are, and whether they are for this Ruby.
  module Platform
    # @return [String] path of liboneflush.so, the extension
    # @raise [Error] if the gem is for another platform
    def library_path
      native_file("liboneflush.so")
    end

    # @return [String] path of the program `oneflush`
    # @raise [Error] if the gem is for another platform
    def program_path
      native_file("oneflush")
    end

    private

    def native_file(name)
      ours = platform_of(RbConfig::CONFIG["host_cpu"], RbConfig::CONFIG["host_os"])
      if ours != PLATFORM
        raise Error, "oneflush: this gem is for #{PLATFORM}, and this Ruby for #{ours}. Install " \
                     "the one for this Ruby: gem uninstall oneflush; gem install oneflush"
      end
      File.join(__dir__, "native", name)
    end

    # Ruby names glibc, "linux-gnu", or does not: "linux".
    def platform_of(cpu, system)
      cpu = "aarch64" if cpu == "arm64"
      return "#{cpu}-#{system}" unless system.start_with?("linux")

      "#{cpu}-linux-#{system.include?("musl") ? "musl" : "gnu"}"
    end
  end
end
