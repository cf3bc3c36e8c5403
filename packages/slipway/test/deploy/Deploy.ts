/** Helpers shared by the tests of `deploy/`. */
import { spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"
import path from "node:path"

export const workspace = path.resolve(import.meta.dirname, "../../../..")

/** A file of `deploy/`. */
export const file = (name: string): string => path.join(workspace, "deploy", name)

export const text = (name: string): string => readFileSync(file(name), "utf8")

/** The text with every one of `changes` made wherever it applies. Each has to. */
export const changed = (from: string, changes: ReadonlyArray<readonly [from: string, to: string]>): string =>
  changes.reduce((before, [wanted, put]) => {
    if (!before.includes(wanted)) throw new Error(`nothing there says ${wanted}:\n${before}`)
    return before.replaceAll(wanted, put)
  }, from)

/** Whether a program is there. */
export const has = (program: string, args: ReadonlyArray<string>): boolean => spawnSync(program, args).status === 0
