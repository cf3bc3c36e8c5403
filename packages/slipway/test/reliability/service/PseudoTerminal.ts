/** A command as a person at a terminal runs it: on a pseudo-terminal, which `script` of util-linux makes. */
import { Effect } from "effect"
import { execFileSync, spawn } from "node:child_process"
import { command, environment, until } from "../../commands/SlipwayProcess.ts"

/** Whether a terminal can be shown; the tests that need one are skipped elsewhere. */
export const isPossible = (() => {
  try {
    execFileSync("script", ["--version"], { stdio: "pipe" })
    return true
  } catch {
    return false
  }
})()

const quoted = (word: string) => `'${word.replaceAll("'", String.raw`'\''`)}'`

const CTRL_C = "\u0003"

/** Runs `slipway` on a terminal of its own until the scope closes. */
export const open = (dataDir: string, args: ReadonlyArray<string>, settings: Readonly<Record<string, string>>) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const line = [process.execPath, command, ...args].map(quoted).join(" ")
      const env = { TERM: "xterm-256color", SHELL: "/bin/sh", ...environment(dataDir, {}), ...settings }
      const child = spawn("script", ["--quiet", "--return", "--flush", "--command", `exec ${line}`, "/dev/null"], { env, cwd: dataDir })
      let said = ""
      child.stdout.setEncoding("utf8").on("data", (text: string) => said += text)
      const ended = new Promise<number | null>((resolve) => child.once("exit", (code) => resolve(code)))
      return {
        /** All that the terminal was sent so far. */
        said: () => said,
        type: (text: string) => Effect.sync(() => void child.stdin.write(text)),
        pressControlC: Effect.sync(() => void child.stdin.write(CTRL_C)),
        shows: (what: RegExp) => until(Effect.sync(() => said), (text) => what.test(text)),
        /** Its exit code. */
        ended: Effect.promise(() => ended),
        close: () => child.kill("SIGKILL")
      }
    }),
    ({ close }) => Effect.sync(close)
  )
