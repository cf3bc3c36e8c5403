/** Logging of a process. */
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

export const settings = {
  format: Setting.withDefault({
    name: "SLIPWAY_LOG_FORMAT",
    type: Type.oneOf(["auto", "pretty", "json"]),
    default: "auto",
    about: "Format of logs on standard error: pretty, or json with one object a line. auto: pretty on a terminal, else json.",
    role: "all"
  }),
  level: Setting.optional({
    name: "SLIPWAY_LOG_LEVEL",
    type: Type.oneOf(["debug", "info", "warning", "error"]),
    about: "Lowest level that is logged: debug, info, warning or error. Without it, info by the service and warning by other commands.",
    role: "all"
  })
}

/** `level` is `null` if each command uses its own. */
export const load = Setting.values(settings)
