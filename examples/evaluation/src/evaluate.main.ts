/** `npm run evaluate -- tasks.jsonl`: README.md has the options. */
import { SlipwayClient } from "@slipway/client"
import { appendFileSync, existsSync, mkdirSync, readFileSync } from "node:fs"
import path from "node:path"
import { parseArgs } from "node:util"
import { type Result, summary, table } from "./Report.ts"
import { score } from "./Score.ts"
import { type Solution, solve } from "./Solve.ts"
import { readTasks, type Task } from "./Task.ts"

const { positionals: [file], values } = parseArgs({
  allowPositionals: true,
  options: {
    model: { type: "string" },
    concurrency: { type: "string", default: "4" },
    only: { type: "string", default: "" },
    out: { type: "string", default: "evaluation" },
    repo: { type: "string", multiple: true, default: [] },
    "test-command": { type: "string" },
    "run-in": { type: "string", default: "" },
    minutes: { type: "string", default: "30" },
    keep: { type: "boolean", default: false },
    json: { type: "boolean", default: false }
  }
})
if (file === undefined) {
  process.stderr.write("Usage: npm run evaluate -- TASKS.jsonl [--repo owner/name=ADDRESS]… [--model M] [--concurrency N]: see README.md\n")
  process.exit(2)
}

const { SLIPWAY_API_KEY = "", SLIPWAY_URL = "http://127.0.0.1:4000" } = process.env
const client = new SlipwayClient({ baseUrl: SLIPWAY_URL, apiKey: SLIPWAY_API_KEY })
const addresses = new Map(values.repo.map((given) => {
  const [name = "", ...rest] = given.split("=")
  const address = rest.join("=")
  return [name, existsSync(address) ? path.resolve(address) : address]
}))
const scoring = {
  addressOf: (repo: string) => addresses.get(repo) ?? `https://github.com/${repo}.git`,
  testCommand: values["test-command"],
  runIn: values["run-in"].split(" ").filter((word) => word !== ""),
  minutes: Number(values.minutes)
}

mkdirSync(values.out, { recursive: true })
const resultsFile = path.join(values.out, "results.jsonl")
/** SWE-bench's own harness reads it too. */
const predictionsFile = path.join(values.out, "predictions.jsonl")
const attempt = path.basename(path.resolve(values.out))
const linesOf = <A>(name: string): ReadonlyArray<A> =>
  existsSync(name) ? readFileSync(name, "utf8").split("\n").filter((line) => line !== "").map((line): A => JSON.parse(line)) : []

/** A prediction of SWE-bench with its sandbox. */
type Prediction = Omit<Solution, "patch"> & {
  readonly instance_id: string
  readonly model_name_or_path: string
  readonly model_patch: string
}

const done = new Map(linesOf<Result>(resultsFile).map((result) => [result.instance_id, result]))
/** Changes that were taken from their sandboxes; their tests may be missing. */
const predicted = new Map(linesOf<Prediction>(predictionsFile).map((prediction) => [prediction.instance_id, prediction]))

/** Keeps the changes before the sandbox is ended. */
const predict = async (task: Task): Promise<Prediction> => {
  const known = predicted.get(task.instance_id)
  if (known !== undefined) return known
  const options = { model: values.model, minutes: scoring.minutes, keeps: values.keep }
  return await solve(client, task, attempt, options, ({ patch, ...solution }) => {
    const named = { instance_id: task.instance_id, model_name_or_path: values.model ?? "slipway", model_patch: patch }
    const prediction = { ...named, ...solution }
    appendFileSync(predictionsFile, `${JSON.stringify(prediction)}\n`)
    return prediction
  })
}

const evaluate = async (task: Task): Promise<Result> => {
  const { model_name_or_path: _, model_patch: patch, ...solution } = await predict(task)
  const judged = solution.turn === "succeeded"
    ? await score(task, patch, scoring)
    : { solved: false, why: `the turn ended as ${solution.turn}` }
  return { ...solution, ...judged }
}

const tasks = (await readTasks(file)).filter(({ instance_id }) => instance_id.includes(values.only))
const waiting = tasks.filter(({ instance_id }) => !done.has(instance_id)).values()
const broken: Array<string> = []

/** Takes one task after the other. A task that breaks is tried again by the next run. */
const work = async () => {
  for (const task of waiting) {
    try {
      const result = await evaluate(task)
      done.set(task.instance_id, result)
      appendFileSync(resultsFile, `${JSON.stringify(result)}\n`)
      process.stderr.write(
        `${done.size} of ${tasks.length}: ${task.instance_id} ${result.solved ? "is solved" : `is not solved: ${result.why}`}\n`
      )
    } catch (error) {
      broken.push(task.instance_id)
      process.stderr.write(`${task.instance_id} could not be evaluated: ${error instanceof Error ? error.message : String(error)}\n`)
    }
  }
}
await Promise.all(Array.from({ length: Math.max(1, Number(values.concurrency)) }, work))

const results = tasks.flatMap(({ instance_id }) => done.get(instance_id) ?? [])
process.stdout.write(values.json ? `${JSON.stringify(results)}\n` : `${table(results)}\n\n${summary(results)}\n`)
if (broken.length > 0) {
  process.stderr.write(`${broken.length} could not be evaluated: run the command again.\n`)
  process.exitCode = 1
}
