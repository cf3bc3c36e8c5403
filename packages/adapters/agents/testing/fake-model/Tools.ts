/** The agents' names of the steps of a script: every agent names its tools differently. */
import type * as Script from "../../src/offline/Script.ts"
import type { Call, OfferedTool } from "./Call.ts"

export interface Workspace {
  /** Absolute: where the agent runs. */
  readonly path: string
  /** First one first; folders are relative to `path`. */
  readonly repositories: ReadonlyArray<{ readonly name: string; readonly folder: string }>
}

/** A call as the protocols carry it: JSON for a function, free text for a custom tool. */
export type ToolUse =
  & { readonly tool: OfferedTool }
  & (
    | { readonly arguments: object }
    | { readonly input: string }
  )

/** A wish that the agent's tools carry out in their own ways. Paths are relative to the repository. */
export type Wish =
  | { readonly kind: "write"; readonly repo: string | null; readonly path: string; readonly content: string }
  | { readonly kind: "delete"; readonly repo: string | null; readonly path: string }
  | { readonly kind: "shell"; readonly text: string }
  | Extract<Script.Step, { readonly kind: "ask" }>
  | { readonly kind: "call"; readonly tool: string; readonly arguments: object }

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

const escalation = { sandbox_permissions: "require_escalated", justification: "needs write access" }

const shell = (call: Call, command: string, folder: string): ToolUse | null => {
  const find = (...names: ReadonlyArray<string>) => call.tools.find(({ name }) => names.includes(name))
  const here = `cd ${quoted(folder)}; ${command}`
  const bash = find("Bash", "bash", "run_terminal_command", "run_terminal_cmd")
  if (bash !== undefined) {
    const explained = Object.fromEntries(
      ["description", "explanation"].filter((name) => bash.parameters.includes(name)).map((name) => [name, "Runs it"])
    )
    return {
      tool: bash,
      arguments: { command: here, ...explained, ...(bash.parameters.includes("is_background") ? { is_background: false } : {}) }
    }
  }
  const exec = find("exec_command", "shell_command")
  if (exec !== undefined) {
    const name = exec.name === "exec_command" ? "cmd" : "command"
    const asks = call.escalates && exec.parameters.includes("sandbox_permissions")
    return { tool: exec, arguments: { [name]: command, workdir: folder, ...(asks ? escalation : {}) } }
  }
  const program = find("exec")
  if (program?.kind === "custom") {
    const options = { cmd: command, workdir: folder, ...(call.escalates ? escalation : {}) }
    return { tool: program, input: `text(JSON.stringify(await tools.exec_command(${JSON.stringify(options)})));` }
  }
  return null
}

const patch = (path: string, content: string) => {
  const added = content.split("\n").map((line) => `+${line}\n`)
  return `*** Begin Patch\n*** Add File: ${path}\n${added.join("")}*** End Patch\n`
}

const write = (call: Call, folder: string, path: string, content: string): ToolUse | null => {
  const find = (name: string) => call.tools.find((tool) => tool.name === name)
  const file = `${folder}/${path}`
  const editor = find("Write") ?? find("write")
  if (editor !== undefined) {
    const named = editor.parameters.filter((name) => ["filePath", "file_path", "path"].includes(name))
    const body = editor.parameters.includes("contents") ? "contents" : "content"
    return { tool: editor, arguments: { ...Object.fromEntries(named.map((name) => [name, file])), [body]: `${content}\n` } }
  }
  const patcher = find("apply_patch")
  if (patcher?.kind === "custom") return { tool: patcher, input: patch(file, content) }
  if (patcher !== undefined) {
    const name = patcher.parameters.includes("patchText") ? "patchText" : "input"
    return { tool: patcher, arguments: { [name]: patch(file, content) } }
  }
  const program = find("exec")
  if (program?.kind === "custom") {
    return { tool: program, input: `text(JSON.stringify(await tools.apply_patch(${JSON.stringify(patch(file, content))})));` }
  }
  const replacer = find("search_replace")
  if (replacer !== undefined) return { tool: replacer, arguments: { file_path: file, old_string: "", new_string: `${content}\n` } }
  return null
}

/** A question in the words of each agent: all of them have a title and options with a description. */
const ask = (call: Call, asked: Extract<Wish, { readonly kind: "ask" }>["questions"]): ToolUse | null => {
  const questions = asked.map(({ multiple, options, text }, index) => ({
    id: `q${index + 1}`,
    header: `Header ${index + 1}`,
    question: text,
    multiSelect: multiple,
    options: options.map((label) => ({ label, description: `It takes ${label}` }))
  }))
  const tool = call.tools.find(({ name }) => ["AskUserQuestion", "ask_user_question", "request_user_input"].includes(name))
  if (tool !== undefined) return { tool, arguments: { questions } }
  return null
}

/** `null`: the agent offers nothing that could do it. */
export const use = (call: Call, wish: Wish, { path, repositories }: Workspace): ToolUse | null => {
  const named = "repo" in wish ? wish.repo : null
  const repository = repositories.find(({ name }) => named === null || name.toLowerCase() === named.toLowerCase())
  const folder = repository === undefined ? path : `${path}/${repository.folder}`
  switch (wish.kind) {
    case "call": {
      const tool = call.tools.find(({ name }) => name === wish.tool)
      if (tool === undefined) return null
      return tool.kind === "custom" && "input" in wish.arguments
        ? { tool, input: String(wish.arguments.input) }
        : { tool, arguments: wish.arguments }
    }
    case "write":
      return write(call, folder, wish.path, wish.content)
    case "delete":
      return shell(call, `rm ${quoted(wish.path)}`, folder)
    case "shell":
      return shell(call, wish.text, folder)
    case "ask":
      return ask(call, wish.questions)
  }
}
