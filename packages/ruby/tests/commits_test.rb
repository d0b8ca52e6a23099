# frozen_string_literal: true

require_relative "helper"

class Commits < Case
  WRITER = File.join(__dir__, "writer.rb")
  COMMITS = 60

  def write(strategy, file)
    said, refused, status = Open3.capture3(RbConfig.ruby, WRITER, strategy, file, "100")
    assert status.success?, refused
    said.lines.last.chomp
  end

  # Kills a writer in the middle. Returns the last number that it has said.
  def killed(strategy, file)
    last = 0
    Open3.popen2(RbConfig.ruby, WRITER, strategy, file, "1000000") do |_, said, process|
      said.each_line do |line|
        last = Integer(line)
        Process.kill(:KILL, process.pid) if last == COMMITS
      end
      assert_equal 9, process.value.termsig
    end
    assert_operator last, :>=, COMMITS
    last
  end

  def check(file, acknowledged)
    rows, last = alone(file, "SELECT count(*), max(n) FROM item").split("|").map { Integer(_1) }
    assert_operator last, :>=, acknowledged
    assert_equal rows, last
    assert_equal "ok", alone(file, "PRAGMA integrity_check")
  end

  %w[plain eager].each do |strategy|
    define_method("test_100_commits_with_#{strategy}_twice_and_SQLite_alone_reads_them") do
      file = self.file
      assert_equal "0 100 #{strategy}", write(strategy, file)
      assert_equal "100 100 #{strategy}", write(strategy, file)
      check(file, 200)
    end
  end

  def test_kill_9_with_plain_SQLite_alone_has_all_commits
    file = self.file
    check(file, killed("plain", file))
  end

  def test_kill_9_with_eager_guarded_then_recovered_and_all_commits_are_there
    file = self.file
    acknowledged = killed("eager", file)
    assert_includes alone(file, "SELECT * FROM item"), "file is not a database"
    dry = Oneflush.recover(file, dry_run: true)
    assert_equal false, dry["recovered"]
    assert_operator dry.dig("log", "records"), :>=, COMMITS
    assert_equal true, Oneflush.recover(file)["recovered"]
    assert_nil Oneflush.recover(file)["log"]
    check(file, acknowledged)
  end

  def test_kill_9_with_eager_the_next_open_has_all_commits
    file = self.file
    acknowledged = killed("eager", file)
    assert_equal "eager", write("eager", file).split.last
    check(file, acknowledged + 100)
  end

  def test_the_command_recovers
    file = self.file
    acknowledged = killed("eager", file)
    assert_includes `oneflush recover #{file}`, "recovered"
    check(file, acknowledged)
  end
end
