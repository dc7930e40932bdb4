# frozen_string_literal: true

Dir[File.join(__dir__, "*_test.rb")].sort.each do |test|
  require test
rescue LoadError => e
  raise unless e.path == "active_support"

  warn "*** SKIPPED: #{File.basename(test)}: the gem activesupport is not installed"
end
