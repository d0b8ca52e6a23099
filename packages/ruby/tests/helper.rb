# frozen_string_literal: true

# What the tests share. They run with the gem that is installed, in the current folder.

require "minitest"
require "open3"
require "oneflush"
require "rbconfig"
require "sqlite3"
require "tmpdir"

# A line for each test: passed, skipped or failed, with the reason.
class Lines < Minitest::AbstractReporter
  def record(result)
    name = "#{result.klass}: #{result.name.delete_prefix("test_").tr("_", " ")}"
    line =
      if result.passed? then format("ok %s (%.1f s)", name, result.time)
      elsif result.skipped? then "skipped #{name}: #{result.failure.message}"
      else "FAILED #{name}: #{result.failures.map(&:full_message).join("; ")}"
      end
    puts line
  end
end

class Minitest::Assertion
  def full_message = "#{message} (#{location})"
end

class Minitest::UnexpectedError
  def full_message = message
end

class Case < Minitest::Test
  # A new folder in the current one, which is on a file system that keeps what a sync promises.
  def folder = Dir.mktmpdir("data-", Dir.pwd)

  def file(name = "app.db") = File.join(folder, name)

  # What Ruby prints in a process of its own.
  def ruby(source, *words, env: {})
    said, refused, status = Open3.capture3(env, RbConfig.ruby, "-e", source, *words)
    assert status.success?, refused
    said.chomp
  end

  def refused(*words, &action)
    error = assert_raises(Oneflush::Error, &action)
    words.each { |word| assert_includes error.message, word }
    error
  end

  # What SQLite alone finds, in a process that never heard of Oneflush.
  def alone(file, sql)
    said, refused, = Open3.capture3("sqlite3", "-batch", file, sql)
    (said + refused).chomp
  end
end

# Minitest calls this when it has read its options.
def Minitest.plugin_lines_init(_options)
  reporter.reporters.replace([Lines.new])
end
Minitest.extensions << "lines"
Minitest.autorun
