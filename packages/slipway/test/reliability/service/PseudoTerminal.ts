/** A command as a person at a terminal runs it: on a pseudo-terminal, which `script` of util-linux makes. */
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
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
export const open = (dataDir: string, args: ReadonlyArray<string>, settings: Readonly<Record<string, string>>) => {
  const line = [process.execPath, command, ...args].map(quoted).join(" ")
  const env = { TERM: "xterm-256color", SHELL: "/bin/sh", ...environment(dataDir, {}), ...settings }
  const script = ["--quiet", "--return", "--flush", "--command", `exec ${line}`, "/dev/null"]
  return Effect.map(SpawnedProgram.scoped("script", script, { env, cwd: dataDir }), ({ child, ended, stdout }) => ({
    /** All that the terminal was sent so far. */
    said: stdout,
    type: (text: string) => Effect.sync(() => void child.stdin.write(text)),
    pressControlC: Effect.sync(() => void child.stdin.write(CTRL_C)),
    shows: (what: RegExp) => until(Effect.sync(stdout), (text) => what.test(text)),
    /** Its exit code. */
    ended: Effect.promise(async () => (await ended).code)
  }))
}
