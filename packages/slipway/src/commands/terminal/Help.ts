/** The text of `--help`: the commands and flags that a person looks for come first. */
import * as CliOutput from "effect/cli/CliOutput"
import type * as HelpDoc from "effect/cli/HelpDoc"
import * as Option from "effect/Option"
import { styleText } from "node:util"
import { exitCodesText } from "./ExitCodes.ts"
import { columns } from "./Output.ts"

/** The flags of every command are listed once, at the end of `slipway --help`. Exit codes are at the end too. */
export const format = ({ globalFlags = [], ...doc }: HelpDoc.HelpDoc, isRoot: boolean, hasColours: boolean): string => {
  const head = (text: string) => hasColours ? styleText("bold", text, { validateStream: false }) : text
  const isScripted = doc.description.includes(exitCodesText)
  const text = CliOutput.defaultFormatter({ colors: hasColours })
    .formatHelpDoc({ ...doc, description: doc.description.replace(exitCodesText, "").trimEnd() })
  const rows = globalFlags.map(({ aliases, description, name }) => [
    `  ${[`--${name}`, ...aliases].join(", ")}`,
    Option.getOrElse(description, () => "")
  ])
  const common = rows.length === 0
    ? []
    : isRoot
    ? [`${head("FLAGS OF EVERY COMMAND")}\n${columns(rows)}`]
    : ["Flags of every command: slipway --help"]
  return [text.trimEnd(), ...(isScripted ? [exitCodesText.replaceAll(/^(?=\d)/gmu, "  ")] : []), ...common].join("\n\n")
}
