/** Texts beside the snippets for clients. */
export const snippets = {
  acp: 'The editor starts the program itself, beside this server: agent.py is the file of your app. If it has several agents, add "--agent" and the name of one. Without a file the program serves the demo.',
} as const;
