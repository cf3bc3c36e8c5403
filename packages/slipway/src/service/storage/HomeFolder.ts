/** The home of this process's user. */
import { codeOf } from "@slipway/domain/files/rules/SystemError"
import { homedir } from "node:os"

/** `/` for a user that the system does not know, if HOME is not set, as in containers with an arbitrary user. */
export const homeFolder = (): string => {
  try {
    return homedir()
  } catch (error) {
    if (codeOf(error) === "ERR_SYSTEM_ERROR") return "/"
    throw error
  }
}
