// SPDX-License-Identifier: Apache-2.0
#include "frontends/report/page.hpp"

#include <ostream>
#include <string>
#include <string_view>

#include "frontends/report/markup.hpp"

namespace remora::report {
namespace {

void append_data(std::string& out, const std::string& id, std::string_view json) {
  out += "<script type=\"application/json\" id=\"";
  out += id;
  out += "\">";
  out += script_safe(json);
  out += "</script>\n";
}

}  // namespace

void write_page(std::ostream& out, const Page& page) {
  std::string script = "\"use strict\";\n(() => {\n";
  script += kPageScript;
  script += "})();\n";
  const std::string name = escaped(page.graph->name.empty() ? "graph" : page.graph->name);
  std::string text;
  append_head(text, {.title = name + " \xc2\xb7 Remora report", .style = kPageStyle, .script = script});
  text += "<header><h1>";
  text += name;
  text += "</h1><p class=\"subtitle\">";
  text += page.curve     ? "A sweep over memory budgets"
          : page.devices ? "Schedule over several devices under memory budgets"
                         : "Schedule with recomputation under a memory budget";
  text += " \xc2\xb7 Remora report</p></header>\n";
  text += kPageBody;
  append_data(text, "graph-data", graph_data(page));
  for (std::size_t i = 0; i < page.schedules.size(); ++i) {
    const ScheduleProfile profile = profile_of(page.graph, page.schedules[i]);
    append_data(text, "schedule-data-" + std::to_string(i), schedule_data(*page.graph, page.schedules[i], profile));
  }
  for (std::size_t i = 0; i < page.device_schedules.size(); ++i) {
    const DeviceProfile profile = profile_of(*page.devices, page.device_schedules[i]);
    append_data(text, "schedule-data-" + std::to_string(i),
                device_schedule_data(*page.devices, page.device_schedules[i], profile));
  }
  text += "<script>";
  text += script;
  text += "</script>\n</body>\n</html>\n";
  out << text;
}

}  // namespace remora::report
