/** Shows a page in the person's browser, where there is one. */
import { Effect } from "effect"
import { spawn } from "node:child_process"

/** What opens an address here, as the platform has it; `null`: nobody would see it. */
const openerOf = (platform: NodeJS.Platform, env: Readonly<Record<string, string | undefined>>): ReadonlyArray<string> | null => {
  // Several, separated by colons, are in the order in which they are tried; one of a terminal needs it for itself, as we do.
  const [chosen = ""] = (env["BROWSER"] ?? "").split(":")
  if (chosen !== "" && platform !== "win32") return [chosen]
  if (platform === "darwin") return ["open"]
  if (platform === "win32") return ["rundll32", "url.dll,FileProtocolHandler"]
  const hasDisplay = (env["DISPLAY"] ?? "") !== "" || (env["WAYLAND_DISPLAY"] ?? "") !== ""
  return hasDisplay ? ["xdg-open"] : null
}

/**
 * Whether a browser was asked to. `address` comes from a server: only what is an address of http is handed on, and as a word of
 * its own, never through a shell.
 */
export const openBrowser = (address: string): Effect.Effect<boolean> =>
  Effect.callback<boolean>((resume) => {
    const opener = openerOf(process.platform, process.env)
    const url = URL.canParse(address) ? new URL(address) : null
    if (opener === null || url === null || !/^https?:$/u.test(url.protocol)) return resume(Effect.succeed(false))
    const [program = "", ...args] = opener
    const child = spawn(program, [...args, url.href], { stdio: "ignore", detached: true })
    child.once("error", () => resume(Effect.succeed(false)))
    child.once("spawn", () => {
      // The browser may outlive the command.
      child.unref()
      resume(Effect.succeed(true))
    })
  })
