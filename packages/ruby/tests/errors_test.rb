# frozen_string_literal: true

require_relative "helper"
require "fileutils"

class Errors < Case
  def test_an_unknown_strategy_option_or_value_is_named_with_those_that_are_allowed
    strategies = "allowed: auto, stock, plain, eager, waldio, maw"
    refused("option strategy", ":fast", strategies) { Oneflush.open(file, strategy: :fast) }
    refused('"fast"', strategies) { Oneflush.enable(default: true, strategy: "fast") }
    refused("option stratgy", "there are: strategy, ") { Oneflush.open(file, stratgy: :plain) }
    refused("option log_size", "a number") { Oneflush.uri("app.db", log_size: "big") }
    refused("option default", "true, false") { Oneflush.enable(default: "yes") }
    ["", ":memory:", "file:app.db", nil].each do |name|
      refused("name a database file") { Oneflush.uri(name) }
    end
    refused("no SQLite3::Database", "Integer") { Oneflush.load(1) }
  end

  def test_where_the_library_knows_the_bounds_its_words_are_shown
    words = ["cannot be loaded", "ONEFLUSH_LOG_SIZE", '"12"', "1048576", "OF-401"]
    error = refused(*words) { Oneflush.enable(log_size: 12) }
    refute_nil error.cause
    refute ENV.key?("ONEFLUSH_LOG_SIZE")
  end

  def test_the_words_that_are_allowed_are_those_of_the_library
    db = SQLite3::Database.new(":memory:")
    db.enable_load_extension(true)
    Oneflush::Options::WORDS.each do |name, words|
      variable = "ONEFLUSH_#{name.to_s.upcase}"
      ENV[variable] = "nonsense"
      error = assert_raises { db.load_extension(Oneflush.library_path) }
      assert_includes error.message, variable
      allowed = error.message[/allowed: (.*) \[OF-401\]/, 1]
      words ? assert_equal(words.join(", "), allowed) : assert_match(/number|milliseconds/, allowed)
    ensure
      ENV.delete(variable)
    end
  end

  def test_recover_says_what_the_program_says
    refused("missing.db", "OF-331") { Oneflush.recover(File.join(folder, "missing.db")) }
    refused("not a regular file", "OF-319") { Oneflush.recover(folder) }
  end

  def test_what_a_refused_open_says
    refused("app.db", "unable to open", "ONEFLUSH_LOG=stderr") do
      Oneflush.open(File.join(folder, "missing", "app.db"))
    end
  end

  # Runs Ruby with a copy of the gem that the block has changed.
  def in_changed_copy(source)
    copy = folder
    FileUtils.cp_r(File.expand_path("..", $LOADED_FEATURES.grep(/oneflush\.rb\z/).first), copy)
    yield File.join(copy, "lib", "oneflush")
    said, status = Open3.capture2e(RbConfig.ruby, "-I", File.join(copy, "lib"), "-e",
                                   "require 'oneflush'; #{source}")
    refute status.success?
    said
  end

  def test_a_gem_for_another_platform_says_which_and_how_to_get_the_right_one
    ours = Oneflush::PLATFORM
    %w[aarch64-linux-musl x86_64-linux-musl riscv64-linux-gnu].each do |other|
      next if other == ours

      said = in_changed_copy("Oneflush.enable") do |lib|
        built = File.join(lib, "built.rb")
        File.write(built, File.read(built).sub(ours, other))
      end
      assert_includes said, "oneflush: this gem is for #{other}, and this Ruby for #{ours}. " \
                            "Install the one for this Ruby: gem uninstall oneflush; gem install"
    end
  end

  def test_a_library_for_another_processor_is_refused_by_name
    said = in_changed_copy("Oneflush.enable") do |lib|
      library = File.join(lib, "native", "liboneflush.so")
      # The machine of an ELF header: RISC-V.
      File.open(library, "r+b") { |image| image.pwrite([243].pack("v"), 18) }
    end
    assert_match(/the extension cannot be loaded: .*liboneflush\.so/, said)
  end
end

class Command < Case
  def test_oneflush_is_the_program_and_its_exit_status_is_the_programs
    assert_equal "oneflush #{Oneflush::VERSION}\n", `oneflush --version`
    assert_equal `#{Oneflush.program_path} --help`, `oneflush --help`
    codes = { %w[nonsense] => 2, %w[recover missing.db] => 1, %w[run -- no-such-program] => 127 }
    codes.each do |words, code|
      _, status = Open3.capture2e("oneflush", *words)
      assert_equal code, status.exitstatus
    end
  end

  def test_the_process_is_the_programs_and_so_are_its_signals
    pid = spawn("oneflush", "run", "--", "sleep", "60", err: File::NULL)
    name = -> { File.read("/proc/#{pid}/comm").chomp }
    600.times { name.call == "sleep" ? break : sleep(0.05) }
    assert_equal "sleep", name.call
    Process.kill(:TERM, pid)
    assert_equal 15, Process.wait2(pid).last.termsig
  end

  def test_oneflush_run_gives_Oneflush_to_a_Ruby_that_links_libsqlite3
    source = "require 'sqlite3'; db = SQLite3::Database.new(ARGV[0]); " \
             "print db.get_first_value('PRAGMA oneflush_strategy')"
    said, = Open3.capture2("oneflush", "run", "--", RbConfig.ruby, "-e", source, file)
    assert_equal "plain (inactive: journal_mode=delete)", said
  end
end
