/** Opens a page in the person's browser, if there is one. */
import { Effect } from "effect"
import { spawn } from "node:child_process"

/** The program of this platform that opens an address; `null`: there is no display. */
const openerOf = (platform: NodeJS.Platform, env: Readonly<Record<string, string | undefined>>): ReadonlyArray<string> | null => {
  // Alternatives are separated by colons, in order. A text browser would need the terminal that we use.
  const [chosen = ""] = (env["BROWSER"] ?? "").split(":")
  if (chosen !== "" && platform !== "win32") return [chosen]
  if (platform === "darwin") return ["open"]
  if (platform === "win32") return ["rundll32", "url.dll,FileProtocolHandler"]
  const hasDisplay = (env["DISPLAY"] ?? "") !== "" || (env["WAYLAND_DISPLAY"] ?? "") !== ""
  return hasDisplay ? ["xdg-open"] : null
}

/**
 * Opens the address and answers whether a browser was started. `address` comes from a server, so only http addresses are passed on, as
 * one argument and never through a shell.
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
