# frozen_string_literal: true

require_relative "helper"

# Each block of code of README.md and book.md, as it stands. A page has a folder of its own.
#
# `ruby file=NAME` (or yaml) is written to a file. The `sh` blocks of a section (`## …`) are one
# script, and its output is what the section's `text` blocks say.
class Docs < Case
  BLOCK = /^```(\w+)(?: file=(\S+))?\n(.*?)^```$/m

  def self.test_order = :alpha

  %w[README.md book.md].each do |page|
    text = File.read(File.join(__dir__, "..", page))
    place = nil
    text.split(/^## (?=.)/).drop(1).each_with_index do |section, at|
      blocks = section.scan(BLOCK)
      script = blocks.select { |language, _, _| language == "sh" }.map(&:last).join
      expected = blocks.select { |language, _, _| language == "text" }.map(&:last).join
      define_method("test_#{page}_#{format("%02d", at)}_#{section.lines.first.chomp}") do
        place ||= folder
        blocks.each { |_, name, body| File.write(File.join(place, name), body) if name }
        next if script.empty?

        said, refused, status = Open3.capture3("bash", "-euo", "pipefail", "-c", script,
                                               chdir: place)
        assert status.success?, refused
        assert_equal expected, said unless expected.empty?
      end
    end

    define_method("test_#{page}_has_no_block_that_is_not_run") do
      text.scan(BLOCK).each { |language, name, _| assert name || %w[sh text].include?(language) }
    end
  end
end
