# frozen_string_literal: true

module Oneflush
  # Loads the extension.
  #
  # The library reads its options from the environment while it is loaded, so they stand there for
  # that time.
  module Loading
    LOCK = Mutex.new
    private_constant :LOCK

    # Loads the extension by an open database. The database itself stays as it is; Oneflush serves
    # those that are opened afterwards.
    #
    # A call with options replaces those of the call before. A call without options changes nothing
    # where the extension is loaded. What no call has named comes from the environment
    # (`ONEFLUSH_STRATEGY`).
    #
    # @param db [SQLite3::Database]
    # @param default [Boolean, nil] whether every database that is opened afterwards uses Oneflush;
    #   it cannot be taken back while the process lives
    # @param options [Hash] options of Oneflush, such as `strategy: :eager`
    # @return [void]
    # @raise [Error] if an option is not known, or the extension cannot be loaded
    def load(db, default: nil, **options)
      wanted = variables(default, options)
      unless db.respond_to?(:load_extension) && db.respond_to?(:enable_load_extension)
        raise Error, "oneflush: this is no SQLite3::Database that can load extensions: #{db.class}"
      end

      LOCK.synchronize do
        next if @loaded && wanted.empty?

        with_variables(wanted) { load_into(db) }
        @loaded = true
      end
      nil
    end

    # Loads the extension by a database in memory, as {#load} does.
    #
    # @example In an initializer of Rails
    #   Oneflush.enable(default: true)
    # @param default [Boolean, nil] whether every database that is opened afterwards uses Oneflush
    # @param options [Hash] options of Oneflush
    # @return [void]
    # @raise [Error] as of {#load}
    def enable(default: nil, **options)
      require "sqlite3"
      db = SQLite3::Database.new(":memory:")
      load(db, default: default, **options)
    ensure
      db&.close
    end

    private

    def load_into(db)
      path = library_path
      db.enable_load_extension(true)
      db.load_extension(path)
    rescue Error
      raise
    rescue StandardError => error
      reason = error.message.delete_prefix("oneflush: ")
      raise Error, "oneflush: the extension cannot be loaded: #{reason}"
    ensure
      # As SQLite has it: SQL of a database could load others.
      db.enable_load_extension(false)
    end

    def with_variables(wanted)
      before = wanted.to_h { |name, _| [name, ENV[name]] }
      ENV.update(wanted)
      yield
    ensure
      ENV.update(before)
    end
  end
end
