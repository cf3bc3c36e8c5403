/** Commands that people write into the message box: a message that is exactly one of them is not sent to the agent. */
import { nearest } from "@slipway/domain/text/EditDistance"
import { html, type Html } from "../../html/Html.ts"

const COMMANDS = {
  publish: "Publish the changes as a pull request",
  stop: "Stop the agent",
  fork: "Start another sandbox from the last checkpoint"
}

export type Command = keyof typeof COMMANDS

const isCommand = (name: string): name is Command => Object.hasOwn(COMMANDS, name)

/** Whether a message is a command (`does`), or only looks like a mistyped one (`like`). */
export const read = (prompt: string): { readonly does: Command | null; readonly like: Command | null } => {
  const [, name = ""] = /^\/([\p{L}\d_-]{1,20})[.!]?$/u.exec(prompt.trim()) ?? []
  if (prompt.trim() === `/${name}` && isCommand(name)) return { does: name, like: null }
  const near = name === "" ? null : nearest(name.toLowerCase(), Object.keys(COMMANDS))
  return { does: null, like: near !== null && isCommand(near) ? near : null }
}

const optionOf = ([name, text]: readonly [name: string, text: string]): Html =>
  html`<div role="option" data-text="/${name}"><span class="what">/${name}</span> <span class="fine">${text}</span></div>
`

/** For `complete.js`. */
export const options: Html = html`<template id="message-commands">
${Object.entries(COMMANDS).map(optionOf)}</template>`
