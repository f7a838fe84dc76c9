// The session's socket: questions to the command line, and memfds that it keeps.
//
// Never used while the gate is closed: the command line answers when it can.
#ifndef KERNCAP_COMMON_SOCKET_H
#define KERNCAP_COMMON_SOCKET_H

#include <string>

#include "common/json.h"

namespace kerncap {

// One JSON object there, one back. False: no answer within 4 s.
bool ask(const std::string& socket_path, const std::string& question, json::Value* answer);

// Hands a descriptor over with a message; true when it is kept there.
bool hand_over(const std::string& socket_path, const std::string& message, int fd);

}  // namespace kerncap

#endif  // KERNCAP_COMMON_SOCKET_H
