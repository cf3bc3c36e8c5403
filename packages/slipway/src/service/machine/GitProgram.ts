/** The git of this machine, which makes mirrors, working trees, changes and branches. */
import { Effect, Schema } from "effect"
import { execFile } from "node:child_process"
import { promisify } from "node:util"

/** The oldest version with the object ids, alternates and index options that we use. */
const OLDEST = [2, 38] as const

/** Git is missing or too old. */
export class NoGit extends Schema.TaggedError<NoGit>()("NoGit", { detail: Schema.String }) {
  override get message() {
    return this.detail
  }
}

/** The version of git. */
export const version: Effect.Effect<string, NoGit> = Effect.gen(function*() {
  const text = yield* Effect.promise(() => promisify(execFile)("git", ["--version"]).then(({ stdout }) => stdout.trim(), () => ""))
  if (text === "") return yield* new NoGit({ detail: "git is not installed, or not on PATH. Install it: apt-get install git" })
  const [, major = 0, minor = 0] = /(?<!\d)(\d+)\.(\d+)/u.exec(text)?.map(Number) ?? []
  if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return text
  return yield* new NoGit({ detail: `${text} is too old: ${OLDEST.join(".")} or newer is needed.` })
})
