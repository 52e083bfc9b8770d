#include "comm/ranks.h"
#include <ATen/ATen.h>
#include <chrono>
using namespace zero; using namespace zero::test;
static double now(){return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();}
TEST(Smoke, A) {
  for (auto b : {Backend::local, Backend::shm}) for (int n : {1,2,3,4,8}) {
    double t0=now();
    run_ranks(b, n, [](World w) {
      for (int64_t sz : {0,1,7,1000,100000,3000001}) {
        auto t = at::full({sz}, w.rank()+1.0f);
        w.communicator().all_reduce(t).wait();
        float e = w.size()*(w.size()+1)/2;
        EXPECT_TRUE(at::equal(t, at::full({sz}, e))) << sz;
      }
    });
    printf("%d ranks %d %f\n", (int)b, n, now()-t0);
  }
}
TEST(Smoke, Speed) {
  for (auto b : {Backend::shm, Backend::local}) 
  run_ranks(b, 2, [](World w) {
    auto c = w.communicator();
    for (int64_t bytes : {8L, 4096L, 65536L, 1L<<20, 64L<<20}) {
      auto t = at::ones({bytes/4}); auto full=t;
      auto bench=[&](const char*name, auto f){ std::vector<double> v; int it = bytes>1<<21?15:2000; for(int i=0;i<it;i++){ c.barrier(); double a=now(); f(); v.push_back(now()-a);} std::sort(v.begin(),v.end()); double m=v[v.size()/2]; if(w.rank()==0) printf("%-16s %9ld  %8.2f us  %6.2f GB/s\n",name,bytes,m*1e6,bytes/m/1e9);};
      auto u = at::empty_like(t);
      bench("memcpy",[&]{ memcpy(u.data_ptr(), t.data_ptr(), bytes);});
      bench("all_reduce",[&]{ c.all_reduce(t).wait();});
      bench("reduce_scatter",[&]{ c.reduce_scatter(t).wait();});
      bench("all_gather",[&]{ c.all_gather(t).wait();});
      bench("broadcast",[&]{ c.broadcast(t).wait();});
      bench("all_to_all",[&]{ c.all_to_all(t).wait();});
    }
  });
}
