/**
 * Looks whether the source is formatted (`npm run check` does): `node scripts/format.mjs`; `npm run format` writes it so.
 * dprint's formatter as WebAssembly, since it needs no binary of this machine's kind.
 */
import { createFromBuffer } from "@dprint/formatter"
import { getPath } from "@dprint/typescript"
import { execFileSync } from "node:child_process"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import path from "node:path"

const root = path.resolve(import.meta.dirname, "..")
const formatter = createFromBuffer(readFileSync(getPath()))
formatter.setConfig({ lineWidth: 140, indentWidth: 2 }, {
  semiColons: "asi",
  quoteStyle: "alwaysDouble",
  quoteProps: "preserve",
  trailingCommas: "never",
  operatorPosition: "maintain",
  "arrowFunction.useParentheses": "force",
  "functionExpression.spaceAfterFunctionKeyword": false,
  "arrayExpression.preferHanging": "always",
  "importDeclaration.sortNamedImports": "maintain"
})

/** Tracked files and new ones that git does not ignore. */
const files = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "*.ts", "*.js", "*.mjs"], {
  cwd: root,
  encoding: "utf8"
}).split("\n").filter((file) => file !== "" && existsSync(path.join(root, file)))

/** What is broken into lines may be broken once more: the formatter needs several passes for some texts. */
const stable = (filePath, fileText, passes = 10) => {
  const formatted = formatter.formatText({ filePath, fileText })
  return formatted === fileText || passes === 0 ? formatted : stable(filePath, formatted, passes - 1)
}

const write = process.argv.includes("--write")
const changed = files.filter((file) => {
  const filePath = path.join(root, file)
  const fileText = readFileSync(filePath, "utf8")
  const formatted = formatter.formatText({ filePath, fileText })
  if (formatted === fileText) return false
  if (write) writeFileSync(filePath, stable(filePath, formatted))
  return true
})
for (const file of changed) process.stdout.write(`${file}\n`)
if (changed.length > 0 && !write) {
  process.stderr.write(`${changed.length} files are not formatted. npm run format does it.\n`)
  process.exitCode = 1
}
