/**
 * Counts what a process does to the world, and kills it at one of these steps. Nothing of it is in the code under test:
 * functions of node are replaced in that one process, `git` is a script that comes first in its PATH, and both write
 * their steps to one file.
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
  count=0
  while read -r line; do count=$((count + 1)); done < "$here/steps"
  read -r at < "$here/at"
  [ $count -eq $at ] && kill -9 $PPID
}
step "is to start" && exit 1
step "${ALONE}"
git "$@"
code=$?
step "${ENDED}"
exit $code
`

/** A folder to control one run with; first in its PATH. `at`: the number of the step it dies at; 0: none. */
export const control = (folder: string, at: number): void => {
  mkdirSync(folder)
  writeFileSync(join(folder, "at"), `${at}\n`)
  writeFileSync(join(folder, "steps"), "")
  writeFileSync(join(folder, "git"), SCRIPT)
  chmodSync(join(folder, "git"), 0o755)
}

/** The steps so far, in order. */
export const steps = (folder: string): ReadonlyArray<string> => readFileSync(join(folder, "steps"), "utf8").split("\n").slice(0, -1)

/** The process group of the git process that was started last, which has its helpers in it. */
export const lastGit = (folder: string): number => Number(readFileSync(join(folder, "group"), "utf8"))

/** Takes a step of this process. */
export const take = (folder: string, name: string): void => {
  appendFileSync(join(folder, "steps"), `${name}\n`)
  if (steps(folder).length === Number(readFileSync(join(folder, "at"), "utf8"))) process.kill(process.pid, "SIGKILL")
}

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
        take(folder, `${name} ${String(path).slice(directory.length).replaceAll(/c_\w{12}|[0-9a-f-]{32,64}/gu, "*")}`)
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
