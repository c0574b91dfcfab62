// SPDX-License-Identifier: Apache-2.0
#include "frontends/report/markup.hpp"

#include <cstddef>

#include "frontends/text/text.hpp"

namespace remora::report {
namespace {

/// U+FFFD, for what XML cannot hold.
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// XML 1.0, section 2.2: of the control characters below a blank, documents hold tabs and ends of lines only.
bool is_forbidden_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r';
}

unsigned hex_value(char digit) {
  return static_cast<unsigned>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

/// The bytes that hexadecimal digits stand for, by RFC 4648's alphabet of 64.
std::string base64_of_hex(std::string_view hex) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  unsigned bits = 0;
  int count = 0;
  for (const char digit : hex) {
    bits = bits << 4 | hex_value(digit);
    count += 4;
    if (count < 6) continue;
    count -= 6;
    out += kDigits[bits >> count & 63];
  }
  if (count > 0) out += kDigits[bits << (6 - count) & 63];
  while (out.size() % 4 != 0) out += '=';
  return out;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    // U+FFFE and U+FFFF, three bytes each.
    const std::string_view character = text.substr(i, 3);
    if (is_forbidden_control(c) || character == "\xEF\xBF\xBE" || character == "\xEF\xBF\xBF") {
      out += kReplacement;
      if (!is_forbidden_control(c)) i += 2;
      continue;
    }
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string script_safe(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

std::string policy_hash(std::string_view text) {
  return "'sha256-" + base64_of_hex(text::sha256_hex(text)) + "'";
}

void append_head(std::string& out, const PageHead& head) {
  out +=
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; form-action 'none'; "
      "img-src data:; style-src ";
  out += policy_hash(head.style);
  if (!head.script.empty()) {
    out += "; script-src ";
    out += policy_hash(head.script);
  }
  out +=
      "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"generator\" content=\"remora report\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>";
  out += head.title;
  out += "</title>\n<style>";
  out += head.style;
  out += "</style>\n</head>\n<body>\n";
}

}  // namespace remora::report
