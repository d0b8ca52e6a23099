# frozen_string_literal: true

require "json"
require "open3"

module Oneflush
  # What the program `oneflush` does for this module.
  module Program
    # Leaves one plain database file after a kill or a crash with eager, waldio or maw.
    #
    # @param path [String, #to_path]
    # @param dry_run [Boolean] only say what the log holds
    # @param accept_loss [Boolean] where the log is lost or damaged, keep what can be kept; all
    #   files are copied aside first
    # @return [Hash] `"recovered"`, and `"log"` with what it held
    # @raise [Error] with the program's words
    def recover(path, dry_run: false, accept_loss: false)
      path = path.to_path if path.respond_to?(:to_path)
      options = []
      options << "--dry-run" if dry_run
      options << "--accept-loss" if accept_loss
      words = ["recover", "--json", *options, "--", path]
      said, refused, status = Open3.capture3(program_path, *words)
      return JSON.parse(said) if status.success?

      raise Error, refused.empty? ? "oneflush: recover ended: #{status}" : refused.chomp
    end
  end
end
