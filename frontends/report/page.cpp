// SPDX-License-Identifier: Apache-2.0
#include "frontends/report/page.hpp"

#include <ostream>
#include <string>
#include <string_view>

#include "frontends/report/markup.hpp"
#include "frontends/report/page_assets.hpp"
#include "frontends/report/page_data.hpp"
#include "frontends/report/schedule_profile.hpp"

namespace remora::report {
namespace {

void append_data(std::string& out, const std::string& id, std::string_view json) {
  out += "<script type=\"application/json\" id=\"";
  out += id;
  out += "\">";
  out += script_safe(json);
  out += "</script>\n";
}

void append_head(std::string& out, const std::string& title, std::string_view script) {
  out +=
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; form-action 'none'; "
      "img-src data:; style-src ";
  out += policy_hash(kPageStyle);
  out += "; script-src ";
  out += policy_hash(script);
  out +=
      "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"generator\" content=\"remora report\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>";
  out += title;
  out += "</title>\n<style>";
  out += kPageStyle;
  out += "</style>\n</head>\n<body>\n";
}

}  // namespace

void write_page(std::ostream& out, const Page& page) {
  std::string script = "\"use strict\";\n(() => {\n";
  script += kPageScript;
  script += "})();\n";
  const std::string name = escaped(page.graph->name.empty() ? "graph" : page.graph->name);
  std::string text;
  append_head(text, name + " \xc2\xb7 Remora report", script);
  text += "<header><h1>";
  text += name;
  text += "</h1><p class=\"subtitle\">";
  text += page.curve ? "A sweep over memory budgets" : "Schedule with recomputation under a memory budget";
  text += " \xc2\xb7 Remora report</p></header>\n";
  text += kPageBody;
  append_data(text, "graph-data", graph_data(page));
  for (std::size_t i = 0; i < page.schedules.size(); ++i) {
    const ScheduleProfile profile = profile_of(page.graph, page.schedules[i]);
    append_data(text, "schedule-data-" + std::to_string(i), schedule_data(page.schedules[i], profile));
  }
  text += "<script>";
  text += script;
  text += "</script>\n</body>\n</html>\n";
  out << text;
}

}  // namespace remora::report
