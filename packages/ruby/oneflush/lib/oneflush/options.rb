# frozen_string_literal: true

module Oneflush
  # Oneflush's options, as environment variables and as parameters of a URI. The tests hold the
  # words against those that the library allows.
  module Options
    # Words of a switch; true and false stand for them.
    SWITCH = %w[on off].freeze

    # Words that are allowed; nil where the library knows the bounds of a number.
    WORDS = {
      strategy: %w[auto stock plain eager waldio maw],
      durability: %w[pragma full],
      group_commit: SWITCH,
      prealloc: nil,
      keep_wal: SWITCH,
      checkpoints: %w[background sqlite],
      unsafe_ground: %w[refuse allow],
      log_size: nil,
      atomic: %w[auto f2fs xfs log],
      layout: %w[embed pad512 pad4k pad8k],
      sync: %w[fs pd ns],
      group: nil,
      interval: nil
    }.freeze

    # A URI by which SQLite opens the file with Oneflush.
    #
    # @example
    #   Oneflush.uri("app.db", strategy: :eager)  # => "file:app.db?vfs=oneflush&strategy=eager"
    # @param path [String, #to_path]
    # @param options [Hash] options of Oneflush, such as `strategy: :eager`, `log_size: 4 << 20`
    # @return [String]
    # @raise [Error] if an option or its value is not known
    def uri(path, **options)
      path = path.respond_to?(:to_path) ? path.to_path : path
      if !path.is_a?(String) || path.empty? || path == ":memory:" || path.start_with?("file:")
        raise Error, "oneflush: uri(#{path.inspect}): name a database file"
      end

      # Two slashes at the front would name a host.
      name = path.sub(%r{\A/+}, "/").b.gsub(%r{[^\w./~-]}n) { |byte| format("%%%02X", byte.ord) }
      words = option_words(options).map { |option, word| "&#{option}=#{word}" }
      "file:#{name}?vfs=oneflush#{words.join}"
    end

    private

    # The environment variables that stand for these options.
    def variables(default, options)
      unless [nil, true, false].include?(default)
        raise Error, "oneflush: option default: #{default.inspect} is not known; " \
                     "allowed: true, false"
      end
      all = option_words(options).to_h { |name, word| ["ONEFLUSH_#{name.to_s.upcase}", word] }
      all["ONEFLUSH_DEFAULT"] = default ? "1" : "0" unless default.nil?
      all
    end

    # Each option with its value as a text. What is nil is left out.
    def option_words(options)
      options.compact.to_h { |name, value| [name, option_word(name, value)] }
    end

    def option_word(name, value)
      unless WORDS.key?(name)
        raise Error, "oneflush: option #{name} is not known; there are: #{WORDS.keys.join(", ")}"
      end

      allowed = WORDS[name]
      word = value.to_s
      word = value ? "on" : "off" if allowed.equal?(SWITCH) && [true, false].include?(value)
      return word if allowed ? allowed.include?(word) : word.match?(/\A[0-9]+(ms)?\z/)

      raise Error, "oneflush: option #{name}: #{value.inspect} is not known; " \
                   "allowed: #{allowed ? allowed.join(", ") : "a number"}"
    end
  end
end
