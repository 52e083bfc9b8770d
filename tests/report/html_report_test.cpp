#include "report/html_report.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::report {
namespace {

using test::error_of;
using test::has;

size_t times(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

// A run of text on two ranks.
RunLog text_run(const std::string& name) {
  RunLog run;
  run.folder = "runs/" + name;
  run.name = name;
  for (int step = 1; step <= 200; ++step) {
    Update update{.step = step};
    update.loss = 4 - 0.01F * static_cast<float>(step);
    update.lr = 0.001F;
    update.grad_norm = 1;
    update.seconds = 1.5F;
    update.samples_per_second = 480;
    update.tokens_per_second = 30720;
    update.memory = {100, 10, 20, 100, 200, 10, 0};
    update.traffic = {1000, 0, 10};
    update.num_ranks = 2;
    update.ranks_begin = run.per_rank.size();
    run.per_rank.insert(
        run.per_rank.end(), {0.25F, 0.5F, 1.0F, 2.0F, 4096.0F, 8192.0F});
    run.updates.push_back(update);
  }
  for (const int step : {100, 200}) {
    run.evaluations.push_back(
        {.step = step, .loss = 3, .perplexity = 20, .text = "To be"});
  }
  run.facts = {{"model", "GPT"}, {"ranks", "2"}};
  run.settings = {{"optimizer.params.lr", "0.001"}, {"stage", "3"}};
  run.config = "{\n  \"stage\": 3\n}";
  return run;
}

TEST(HtmlReport, OneRunIsShownInFull) {
  const std::string page = html_report({text_run("first")});
  EXPECT_TRUE(has(page, "<html lang='en'>"));
  EXPECT_TRUE(has(page, "<title>first – training report</title>"));
  for (const char* title :
       {"Loss",
        "Perplexity in evaluation",
        "Gradient norm",
        "Learning rate",
        "Tokens per second",
        "Communication hidden behind computation",
        "Time lost to waiting",
        "Traffic into rank 0",
        "Memory of rank 0",
        "Largest process"}) {
    EXPECT_EQ(times(page, "<h3>" + std::string(title) + "</h3>"), 1) << title;
  }
  EXPECT_EQ(times(page, "role='img'"), 10);
  EXPECT_EQ(times(page, "<summary>Numbers</summary>"), 10);
  for (const char* headline :
       {"<dt>Updates</dt><dd>200</dd>",
        "<dt>Training loss</dt><dd>2.015</dd>", // the mean of the last four
        "<dt>Best evaluation loss</dt><dd>3</dd>",
        "<dt>Tokens per second</dt><dd>30,720</dd>",
        "<dt>Training state of rank 0</dt><dd>430 B</dd>",
        "<dt>Time not waited</dt><dd>75 %</dd>"}) {
    EXPECT_TRUE(has(page, headline)) << headline;
  }
  EXPECT_TRUE(has(page, "<title>50 s</title>")); // what rank 0 waited
  EXPECT_TRUE(has(page, "<pre>To be</pre>"));
  EXPECT_TRUE(has(page, "&quot;stage&quot;: 3"));
  EXPECT_TRUE(has(page, "<th scope='row'>ranks</th><td>2</td>"));
}

TEST(HtmlReport, WhatHappenedIsToldAndMarked) {
  RunLog run = text_run("one");
  EXPECT_FALSE(has(html_report({run}), "What happened"));
  run.notes = {{.step = 50, .text = "lost <rank> 1"}};
  const std::string page = html_report({run});
  EXPECT_TRUE(has(page, "What happened"));
  EXPECT_TRUE(has(page, "50 updates:</span> lost &lt;rank&gt; 1"));
  EXPECT_EQ(times(page, "class='mark'"), 1); // in the chart of the loss
}

TEST(HtmlReport, PicturesHaveAccuracy) {
  RunLog run = text_run("images");
  for (auto& update : run.updates) {
    update.tokens_per_second = kNoValue;
  }
  run.evaluations = {{.step = 9, .loss = 1, .accuracy = 0.5F, .top5 = 0.9F}};
  const std::string page = html_report({run});
  EXPECT_TRUE(has(page, "<h3>Accuracy in evaluation</h3>"));
  EXPECT_TRUE(has(page, "<dt>Best accuracy</dt><dd>50 %</dd>"));
  EXPECT_TRUE(has(page, "<h3>Samples per second</h3>"));
  EXPECT_FALSE(has(page, "<h3>Perplexity"));
  EXPECT_FALSE(has(page, "What the model writes"));
}

TEST(HtmlReport, WhatComesFromFilesIsNeverMarkup) {
  const std::string hostile = "</pre>'\"<script>alert(1)</script><img src=x>";
  RunLog run = text_run(hostile);
  run.folder = run.config = run.evaluations[0].text = hostile;
  run.facts = {{"model", hostile}, {hostile, hostile}};
  run.settings = {{hostile, "1"}};
  RunLog other = run;
  other.name = "other";
  other.settings[0].value = hostile;
  for (const auto& runs :
       {std::vector<RunLog>{run}, std::vector<RunLog>{run, other}}) {
    const std::string page = html_report(runs);
    EXPECT_EQ(times(page, "<script"), 1);
    EXPECT_FALSE(has(page, "<img"));
    EXPECT_TRUE(has(page, "&lt;script&gt;alert(1)&lt;/script&gt;"));
  }
}

TEST(HtmlReport, NeedsNothingFromElsewhere) {
  const std::string page = html_report({text_run("first")});
  EXPECT_TRUE(has(page, "content=\"default-src 'none'; "));
  EXPECT_FALSE(has(page, " src="));
  EXPECT_FALSE(has(page, "url("));
  EXPECT_FALSE(has(page, "@import"));
  EXPECT_EQ(times(page, "href="), 1); // of the icon, which is empty
  EXPECT_TRUE(has(page, "href='data:,'"));
}

TEST(HtmlReport, UpdatesWithoutAFiniteLossAreCounted) {
  RunLog run = text_run("first");
  EXPECT_FALSE(has(html_report({run}), "without a finite loss"));
  run.updates[7].loss = run.updates[9].loss = kNoValue;
  EXPECT_TRUE(has(html_report({run}), "which are left out: 2."));
}

TEST(HtmlReport, RunsAreComparedSideBySide) {
  const RunLog first = text_run("first");
  RunLog second = text_run("second");
  second.facts = {{"model", "GPT"}, {"ranks", "4"}, {"host", "a"}};
  second.settings[0].value = "0.01";
  second.settings.push_back({"new", "1"});
  const std::string page = html_report({first, second});
  EXPECT_TRUE(has(page, "<h1>2 training runs side by side</h1>"));
  EXPECT_TRUE(has(page, "data-name='first, mean of 4 updates'"));
  EXPECT_TRUE(has(page, "data-name='second, evaluation'"));
  EXPECT_EQ(times(page, "role='img'"), 10);
  EXPECT_TRUE(has(page, "<tr><th scope='row'>model</th>"));
  EXPECT_TRUE(has(
      page,
      "<tr class='differs'><th scope='row'>ranks ≠</th><td>2</td><td>4</td>"));
  EXPECT_TRUE(has(page, "host ≠</th><td>–</td><td>a</td>"));
  EXPECT_TRUE(has(page, "optimizer.params.lr</th><td>0.001</td><td>0.01</td>"));
  EXPECT_TRUE(has(page, "new</th><td>–</td><td>1</td>"));
  EXPECT_FALSE(has(page, ">stage</th>"));
  EXPECT_TRUE(has(html_report({first, first}), "Settings that differ: none"));
}

TEST(HtmlReport, RunsOfOneNameAreToldApartByFolder) {
  RunLog other = text_run("first");
  other.folder = "elsewhere/first";
  const std::string page = html_report({text_run("first"), other});
  EXPECT_TRUE(has(page, "<th scope='col'>runs/first</th>"));
  EXPECT_TRUE(has(page, "<th scope='col'>elsewhere/first</th>"));
}

TEST(HtmlReport, ARunThatHasJustBegunHasAPage) {
  RunLog run;
  run.name = run.folder = "new";
  const std::string page = html_report({run});
  EXPECT_TRUE(has(page, "<h1>new</h1>"));
  EXPECT_EQ(times(page, "role='img'"), 0);
  EXPECT_TRUE(has(html_report({run, text_run("first")}), "<h3>Loss</h3>"));
}

TEST(HtmlReport, LongTextsAreCutBetweenLetters) {
  RunLog run = text_run("first");
  run.evaluations.back().text.clear();
  for (int i = 0; i < 3000; ++i) {
    run.evaluations.back().text += "ä";
  }
  run.evaluations.back().text.insert(0, "x");
  const std::string page = html_report({run});
  EXPECT_TRUE(has(page, "ää …</pre>"));
}

TEST(HtmlReport, OfNoRunIsAMistake) {
  EXPECT_THROW(html_report({}), ConfigError);
}

TEST(HtmlReport, IsWrittenAsAWhole) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "report.html";
  std::ofstream(path) << "old";
  write_html_report({text_run("first")}, path);
  EXPECT_EQ(test::read_file(path), html_report({text_run("first")}));
  const std::filesystem::directory_iterator files(folder.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST(HtmlReport, AFolderThatIsNotThereIsNamed) {
  const auto write = [] {
    write_html_report({text_run("first")}, "/nowhere/report.html");
  };
  EXPECT_THROW(write(), IoError);
  const std::string text = error_of(write);
  EXPECT_TRUE(has(text, "cannot write '/nowhere/report.html'")) << text;
}

TEST(HtmlReport, NothingIsLeftWhenItCannotBeWritten) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "report.html");
  const std::string path = folder.path() / "report.html";
  EXPECT_THROW(write_html_report({text_run("first")}, path), IoError);
  const std::filesystem::directory_iterator files(folder.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

} // namespace
} // namespace zero::report
