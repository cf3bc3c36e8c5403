/**
 * Counts what a process does to the world, and kills it at one of these steps. Nothing of it is in the code under test:
 * functions of node are replaced in that one process, `git` is a script that comes first in its PATH, and both write
 * their steps to one file. Some gits run side by side: the order of their steps is another one each time, so a step is known by its name
 * and by how many of that name came before.
 */
import { appendFileSync, chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import fs from "node:fs/promises"
import { syncBuiltinESMExports } from "node:module"
import { join } from "node:path"

/** A step where the process dies though its git goes on: what happens when only the worker is killed. */
export const ALONE = "goes on alone"
export const ENDED = "has ended"

const SCRIPT = `#!/bin/sh
here=\${0%/*}
PATH=\${PATH#*:}
for name; do case $name in -* | *=*) ;; *) break ;; esac; done
echo $$ > "$here/group"
step() {
  echo "git $name $1" >> "$here/steps"
  { read -r nth && read -r at; } < "$here/at"
  [ "$at" = "git $name $1" ] || return 1
  count=0
  while read -r line; do [ "$line" = "$at" ] && count=$((count + 1)); done < "$here/steps"
  [ $count -eq $nth ] && kill -9 $PPID
}
step "is to start" && exit 1
step "${ALONE}"
git "$@"
code=$?
step "${ENDED}"
exit $code
`

/** The `nth` step of this name; the first is 1. */
export interface Step {
  readonly name: string
  readonly nth: number
}

/** A folder to control one run with; first in its PATH. `at`: the step it dies at. */
export const control = (folder: string, at: Step | null): void => {
  mkdirSync(folder)
  writeFileSync(join(folder, "at"), at === null ? "0\n\n" : `${at.nth}\n${at.name}\n`)
  writeFileSync(join(folder, "steps"), "")
  writeFileSync(join(folder, "git"), SCRIPT)
  chmodSync(join(folder, "git"), 0o755)
}

const linesOf = (file: string): ReadonlyArray<string> => readFileSync(file, "utf8").split("\n").slice(0, -1)

/** The steps so far, in order. */
export const steps = (folder: string): ReadonlyArray<Step> => {
  const counts = new Map<string, number>()
  return linesOf(join(folder, "steps")).map((name) => {
    const nth = (counts.get(name) ?? 0) + 1
    counts.set(name, nth)
    return { name, nth }
  })
}

/** The process group of the git process that was started last, which has its helpers in it. */
export const lastGit = (folder: string): number => Number(readFileSync(join(folder, "group"), "utf8"))

/** Takes a step of this process. */
export const take = (folder: string, name: string): void => {
  appendFileSync(join(folder, "steps"), `${name}\n`)
  const [nth, at] = linesOf(join(folder, "at"))
  if (at === name && steps(folder).filter((step) => step.name === at).length === Number(nth)) process.kill(process.pid, "SIGKILL")
}

/** The parts of a path that differ each time: ids, hashes, and the folder of an object. */
const RANDOM = /c_\w{12}|[0-9a-f-]{32,64}|(?<=\/objects\/)[0-9a-f]{2}(?=\/|$)/gu

/**
 * Every change of this process to what is on disk below `directory` is a step, right before it is made, from when the
 * answer is called: what a start of it tidies up depends on who was killed before.
 */
export const takeOnDisk = (folder: string, directory: string): () => void => {
  let hasBegun = false
  const names = ["copyFile", "mkdir", "open", "rename", "rm", "symlink", "utimes", "writeFile"] as const
  for (const name of names) {
    const real = fs[name] as (...args: ReadonlyArray<unknown>) => unknown
    const counting = (...args: ReadonlyArray<unknown>) => {
      const path = args.find((arg) => String(arg).startsWith(directory))
      if (hasBegun && path !== undefined) {
        take(folder, `${name} ${String(path).slice(directory.length).replaceAll(RANDOM, "*")}`)
      }
      return real(...args)
    }
    Object.assign(fs, { [name]: counting })
  }
  syncBuiltinESMExports()
  return () => {
    hasBegun = true
  }
}
