// Runs scenarios in one browser, one after the other: `node run.mjs start_to_end filters`.
//
// Variables: WORLD (JSON, what the scenarios must know), CHROMIUM (the program), NODE_PACKAGES (a folder with node_modules), LEFT (a folder
// for the screenshot of a scenario that failed), and SCENARIOS (only these, separated by commas: for development).

import { join } from 'node:path';
import { launch } from './kit/browser.mjs';
import { Stage } from './kit/stage.mjs';

const world = JSON.parse(process.env.WORLD);
const browser = await launch();
let failed = 0;
const names = process.env.SCENARIOS?.split(',') ?? process.argv.slice(2);
for (const name of names) {
  const { default: scenario } = await import(`./${name}.mjs`);
  const begun = performance.now();
  const stage = new Stage(browser, world);
  try {
    await scenario(stage);
    stage.check();
    console.log(`ok      ${name}, ${seconds(begun)}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name}, ${seconds(begun)}\n${error.stack}\n${stage.report()}`);
    await stage.screenshot(join(process.env.LEFT, `${name}.png`));
  }
  await stage.close();
}
await browser.close();
process.exitCode = failed === 0 ? 0 : 1;

function seconds(begun) {
  return `${((performance.now() - begun) / 1000).toFixed(1)} s`;
}
