/**
 * Looks whether the source is formatted (`npm run check` does): `node scripts/format.mjs`; `npm run format` writes it so.
 * `--in FOLDER`: another checkout. dprint's formatter as WebAssembly, since it needs no binary of this machine's kind.
 *
 * It fails as well for what the formatter leaves to authors: text that is too long for a line, and a template that it broke
 * at an interpolation to make it fit.
 */
import { createFromBuffer } from "@dprint/formatter"
import { getPath } from "@dprint/typescript"
import { execFileSync } from "node:child_process"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import path from "node:path"
import { parseArgs } from "node:util"

const { values: { in: folder = path.join(import.meta.dirname, ".."), write } } = parseArgs({
  options: { in: { type: "string" }, write: { type: "boolean", default: false } }
})
const root = path.resolve(folder)
const WIDTH = 140
const formatter = createFromBuffer(readFileSync(getPath()))
formatter.setConfig({ lineWidth: WIDTH, indentWidth: 2 }, {
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

/** Formats until nothing changes: the formatter needs several passes for some texts. */
const stable = (filePath, fileText, passes = 10) => {
  const formatted = formatter.formatText({ filePath, fileText })
  return formatted === fileText || passes === 0 ? formatted : stable(filePath, formatted, passes - 1)
}

const read = (file) => readFileSync(path.join(root, file), "utf8")

const changed = files.filter((file) => {
  const filePath = path.join(root, file)
  const fileText = read(file)
  const formatted = formatter.formatText({ filePath, fileText })
  if (formatted === fileText) return false
  if (write) writeFileSync(filePath, stable(filePath, formatted))
  return true
})
const unshapely = files.flatMap((file) =>
  read(file).split("\n").flatMap((line, i) => {
    const columns = [...line].length
    const told = columns > WIDTH ? `${columns} columns` : line.endsWith("${") ? "a template is broken at an interpolation" : null
    return told === null ? [] : [`${file}:${i + 1}: ${told}`]
  })
)

const complain = (sentence) => {
  process.stderr.write(`${sentence}\n`)
  process.exitCode = 1
}
for (const told of [...changed, ...unshapely]) process.stdout.write(`${told}\n`)
if (changed.length > 0 && !write) complain(`${changed.length} files are not formatted. npm run format does it.`)
if (unshapely.length > 0) {
  complain(`${unshapely.length} lines have no good shape, which no formatter finds: name a part before the template, or split the text.`)
}
