// Payloads that are very large, binary, or not JSON.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { call, instance, see, until } from './kit/actions.mjs';

const LARGE = JSON.stringify({ text: 'tea '.repeat(375_000), end: 'the very end' });

export default async function scenario(stage) {
  const { world } = stage;
  const start = (id, input) => call(world, 'POST', '/v1/orchestrations/echo/instances', { id, inputText: input });
  await start('large', LARGE);
  await start('binary', 'a\u0000b\u0001\u202ec\ufffd');
  await start('plain', 'neither <JSON> nor markup');
  await start('numbers', '{"exact":12345678901234567890,"two":[1,2]}');
  for (const id of ['large', 'binary', 'plain', 'numbers']) {
    await until(`${id} has ended`, async () => (await call(world, 'GET', `/v1/instances/${id}?wait=20`)).status === 'Completed');
  }

  const page = await stage.open(instance('large'));
  const output = page.getByRole('region', { name: 'Output' });
  await output.waitFor();
  await see(page, /The first 20 kB of 1\.5 MB/);
  assert.ok((await output.innerText()).length < 30_000, 'a part of it');
  assert.ok(await page.evaluate(() => document.body.textContent.length) < 200_000);
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download Output' }).click()]);
  assert.equal(await readFile(await file.path(), 'utf8'), LARGE);
  assert.match(file.suggestedFilename(), /^large-output\.json$/);
  await page.getByRole('button', { name: /^Show 1 MB/ }).first().click();
  await see(page, 'Download it to see the rest.');

  await page.goto(`${world.api}/${instance('binary')}`);
  await see(page, /binary or non-printing text/);
  assert.match(await page.getByRole('region', { name: 'Output' }).innerText(), /^aU\+0000bU\+0001U\+202EcU\+FFFD$/);
  const [bytes] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download Output' }).click()]);
  assert.equal(await readFile(await bytes.path(), 'utf8'), 'a\u0000b\u0001\u202ec\ufffd');

  await page.goto(`${world.api}/${instance('plain')}`);
  await until('text is shown as it is', async () => (await page.getByRole('region', { name: 'Output' }).innerText()) === 'neither <JSON> nor markup');
  await page.goto(`${world.api}/${instance('numbers')}`);
  await until('no digit is lost', async () => (await page.getByRole('region', { name: 'Output' }).innerText()).includes('12345678901234567890'));
}
